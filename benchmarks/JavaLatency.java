// The same as latency.py, by Java's own producer: `java -cp KAFKA_JARS JavaLatency.java SERVERS TOPIC RECORDS RATE`.

import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class JavaLatency {
    static final int WARM_UP = 5_000; // more than the others: code is compiled while it runs

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        int records = Integer.parseInt(arguments[2]);
        double rate = Double.parseDouble(arguments[3]);
        byte[] value = new byte[100];
        Arrays.fill(value, (byte) 'v');
        Map<String, Object> settings = Map.of("bootstrap.servers", arguments[0], "linger.ms", 0);
        ByteArraySerializer bytes = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings, bytes, bytes)) {
            oneByOne(producer, new ProducerRecord<>(topic, value), WARM_UP);
            ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, value);
            long[] took = rate == 0 ? oneByOne(producer, record, records) : atRate(producer, record, records, rate);
            Arrays.sort(took);
            System.out.printf(
                "{\"records\": %d, \"p50\": %s, \"p99\": %s, \"p999\": %s}%n",
                records, took[records / 2] / 1e3, took[(int) (records * 0.99)] / 1e3,
                took[(int) (records * 0.999)] / 1e3);
        }
    }

    static long[] oneByOne(KafkaProducer<byte[], byte[]> producer, ProducerRecord<byte[], byte[]> record, int records)
            throws Exception {
        long[] took = new long[records];
        for (int index = 0; index < records; index++) {
            long started = System.nanoTime();
            producer.send(record).get();
            took[index] = System.nanoTime() - started;
        }
        return took;
    }

    static long[] atRate(
            KafkaProducer<byte[], byte[]> producer, ProducerRecord<byte[], byte[]> record, int records, double rate)
            throws Exception {
        long[] took = new long[records];
        CountDownLatch pending = new CountDownLatch(records);
        long started = System.nanoTime();
        for (int index = 0; index < records; index++) {
            int number = index;
            long due = started + (long) (index * 1e3 / rate) * 1_000_000;
            for (long ahead; (ahead = due - System.nanoTime()) > 0; ) {
                LockSupport.parkNanos(ahead);
            }
            producer.send(record, (metadata, error) -> {
                took[number] = System.nanoTime() - due;
                pending.countDown();
            });
        }
        pending.await();
        return took;
    }
}
