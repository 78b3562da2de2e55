import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.util.Base64;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;

/** Reads a schema and data in Base64 from each line, and prints the data that Java's Avro writes for what it read. */
public class AvroEcho {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String answer;
            try {
                String[] parts = line.split(" ", -1);
                answer = echo(new String(Base64.getDecoder().decode(parts[0])), Base64.getDecoder().decode(parts[1]));
            } catch (Exception error) {
                answer = "error " + error;
            }
            System.out.println(answer.replace('\n', ' '));
            System.out.flush();
        }
    }

    private static String echo(String text, byte[] data) throws Exception {
        Schema schema = new Schema.Parser().parse(text);
        BinaryDecoder decoder = DecoderFactory.get().binaryDecoder(data, null);
        Object read = new GenericDatumReader<Object>(schema).read(null, decoder);
        if (!decoder.isEnd()) {
            return "error bytes are left";
        }
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(out, null);
        new GenericDatumWriter<Object>(schema).write(read, encoder);
        encoder.flush();
        return Base64.getEncoder().encodeToString(out.toByteArray());
    }
}
