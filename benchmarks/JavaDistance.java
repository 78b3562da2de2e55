// The same as distance_client.py, by Java's own producer: `java -cp KAFKA_JARS JavaDistance.java SERVERS`.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class JavaDistance {
    public static void main(String[] arguments) throws Exception {
        Map<Boolean, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();
        BufferedReader works = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = works.readLine()) != null; ) {
            String[] work = line.split(" ");
            boolean idempotent = work[7].equals("True");
            ByteArraySerializer bytes = new ByteArraySerializer();
            KafkaProducer<byte[], byte[]> producer = producers.computeIfAbsent(idempotent, wanted ->
                new KafkaProducer<>(
                    Map.of(
                        "bootstrap.servers", arguments[0], "linger.ms", 5, "acks", "all", "enable.idempotence", wanted),
                    bytes, bytes));
            System.out.println(run(producer, work));
        }
    }

    static String run(KafkaProducer<byte[], byte[]> producer, String[] work) {
        String topic = work[0], way = work[4];
        int partitions = Integer.parseInt(work[1]), records = Integer.parseInt(work[2]), bunch = Integer.parseInt(work[6]);
        long interval = (long) (Double.parseDouble(work[5]) * 1e9);
        byte[] value = new byte[Integer.parseInt(work[3])];
        Arrays.fill(value, (byte) 'v');
        long[] took = new long[records];
        AtomicInteger acknowledged = new AtomicInteger();
        long started = System.nanoTime();
        for (int index = 0; index < records; index++) {
            if (interval > 0 && index % bunch == 0) {
                long due = started + index / bunch * interval;
                for (long ahead; (ahead = due - System.nanoTime()) > 0; ) {
                    LockSupport.parkNanos(ahead);
                }
            }
            byte[] key = way.equals("keys") ? ("key-" + (long) index * 7_919 % 1_000).getBytes() : null;
            Integer partition = way.equals("turns") ? (Integer) (index % partitions) : null;
            int number = index;
            long sent = System.nanoTime();
            producer.send(new ProducerRecord<>(topic, partition, key, value), (metadata, error) -> {
                if (error == null) {
                    took[number] = System.nanoTime() - sent;
                    acknowledged.incrementAndGet();
                }
            });
        }
        producer.flush();
        double all = (System.nanoTime() - started) / 1e6;
        if (acknowledged.get() != records) {
            throw new RuntimeException(records + " records were sent, " + acknowledged + " were acknowledged");
        }
        Arrays.sort(took);
        return String.format(
            "{\"p50\": %s, \"p95\": %s, \"p99\": %s, \"all\": %s}",
            at(took, 0.50), at(took, 0.95), at(took, 0.99), all);
    }

    static double at(long[] sorted, double part) {
        double place = part * (sorted.length - 1);
        int below = (int) place;
        long next = sorted[Math.min(below + 1, sorted.length - 1)];
        return (sorted[below] + (place - below) * (next - sorted[below])) / 1e6;
    }
}
