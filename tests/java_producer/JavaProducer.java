import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Runs commands on producers: each line of the input begins with the name of a producer, which has a thread of its own.
 * A line of the output is the outcome of a producer's next call, or of one record, in the order of callbacks.
 */
public class JavaProducer implements Runnable {
    private final String name;
    private final BlockingQueue<String[]> commands = new LinkedBlockingQueue<>();
    private KafkaProducer<byte[], byte[]> producer;
    private volatile String sending;

    private JavaProducer(String name) {
        this.name = name;
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, JavaProducer> producers = new ConcurrentHashMap<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            producers.computeIfAbsent(words[0], JavaProducer::started)
                    .commands.add(Arrays.copyOfRange(words, 1, words.length));
        }
        System.exit(0);
    }

    private static JavaProducer started(String name) {
        JavaProducer made = new JavaProducer(name);
        Thread thread = new Thread(made, name);
        thread.setDaemon(true);
        thread.start();
        return made;
    }

    @Override
    public void run() {
        while (true) {
            String outcome = "ok";
            boolean last = false;
            try {
                String[] words = commands.take();
                last = words[0].equals("close");
                execute(words);
            } catch (Throwable error) {
                outcome = "error " + named(error);
            }
            say("call " + outcome);
            if (last) {
                return;
            }
        }
    }

    private void execute(String[] words) {
        switch (words[0]) {
            case "new" -> producer = made(words);
            case "send" -> send(words);
            case "flush" -> producer.flush();
            case "init" -> producer.initTransactions();
            case "begin" -> producer.beginTransaction();
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            case "offsets" -> producer.sendOffsetsToTransaction(
                    Map.of(new TopicPartition(words[2], 0), new OffsetAndMetadata(Long.parseLong(words[3]))),
                    new ConsumerGroupMetadata(words[1]));
            case "close" -> producer.close(Duration.ofSeconds(3));
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    private static KafkaProducer<byte[], byte[]> made(String[] words) {
        Properties settings = new Properties();
        for (int place = 1; place < words.length; place++) {
            String[] parts = words[place].split("=", 2);
            settings.put(parts[0], parts[1]);
        }
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    /** The words: send, topic, partition or k, value, and the size to which the value is filled. With k, it is the key. */
    private void send(String[] words) {
        byte[] text = words[3].getBytes(StandardCharsets.UTF_8);
        byte[] value = Arrays.copyOf(text, Math.max(text.length, Integer.parseInt(words[4])));
        boolean byKey = words[2].equals("k");
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(
                words[1], byKey ? null : Integer.valueOf(words[2]), 1_700_000_000_000L, byKey ? text : null, value);
        Thread caller = Thread.currentThread();
        sending = words[3];
        try {
            producer.send(record, (metadata, error) -> report(words[3], caller, metadata, error));
        } catch (RuntimeException error) {
            if (sending != null) {
                say("record " + words[3] + " refused " + named(error));
            }
        }
        sending = null;
    }

    /** Says the outcome of a record. A callback within `send` is for a record that was not queued. */
    private void report(String value, Thread caller, RecordMetadata metadata, Exception error) {
        if (error == null) {
            say("record " + value + " " + metadata.offset());
        } else if (Thread.currentThread() == caller && value.equals(sending)) {
            sending = null;
            say("record " + value + " refused " + named(error));
        } else {
            say("record " + value + " error " + named(error));
        }
    }

    private void say(String what) {
        synchronized (System.out) {
            System.out.println(name + " " + what);
            System.out.flush();
        }
    }

    /** Kafka's name of the first error with a code, from the outside in; otherwise the class of the outer one. */
    private static String named(Throwable error) {
        for (Throwable each = error; each != null; each = each.getCause()) {
            Errors known = Errors.forException(each);
            if (known != Errors.UNKNOWN_SERVER_ERROR
                    || each instanceof org.apache.kafka.common.errors.UnknownServerException) {
                return known.name();
            }
        }
        return error.getClass().getSimpleName().replace("Exception", "");
    }
}
