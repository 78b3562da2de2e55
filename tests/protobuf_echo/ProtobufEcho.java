import com.google.protobuf.CodedInputStream;
import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Reads lines of files' descriptors and a record's value, all in Base64, and prints the message that Java reads, as bytes.
 *
 * The last of the files has the message, which the indexes before the data name, as for a consumer of the registry.
 */
public class ProtobufEcho {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String answer;
            try {
                answer = echo(line.split(" ", -1));
            } catch (Exception error) {
                answer = "error " + error;
            }
            System.out.println(answer.replace('\n', ' '));
            System.out.flush();
        }
    }

    private static String echo(String[] parts) throws Exception {
        Map<String, FileDescriptor> files = new HashMap<>();
        FileDescriptor file = null;
        for (int number = 0; number < parts.length - 1; number++) {
            FileDescriptorProto proto = FileDescriptorProto.parseFrom(Base64.getDecoder().decode(parts[number]));
            List<FileDescriptor> needed = new ArrayList<>();
            for (String name : proto.getDependencyList()) {
                needed.add(files.get(name));
            }
            file = FileDescriptor.buildFrom(proto, needed.toArray(new FileDescriptor[0]));
            files.put(proto.getName(), file);
        }
        byte[] value = Base64.getDecoder().decode(parts[parts.length - 1]);
        if (value[0] != 0) {
            return "error the first byte is " + value[0];
        }
        CodedInputStream input = CodedInputStream.newInstance(value, 5, value.length - 5);
        Descriptor type = type(file, input);
        byte[] data = input.readRawBytes(value.length - 5 - input.getTotalBytesRead());
        DynamicMessage message = DynamicMessage.parseFrom(type, data);
        if (!message.getUnknownFields().asMap().isEmpty()) {
            return "error unknown fields " + message.getUnknownFields();
        }
        return type.getFullName() + " " + Base64.getEncoder().encodeToString(message.toByteArray());
    }

    /** The type at the indexes: their number and each of them as zigzag varints; a lone 0 is the first type. */
    private static Descriptor type(FileDescriptor file, CodedInputStream input) throws Exception {
        int count = input.readSInt32();
        Descriptor type = file.getMessageTypes().get(count == 0 ? 0 : input.readSInt32());
        for (int number = 1; number < count; number++) {
            type = type.getNestedTypes().get(input.readSInt32());
        }
        return type;
    }
}
