package io.lancewood.spark;

import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * The batches of one task, as a worker lays them into memory.
 *
 * <p>A batch is good until the next one is asked for: then the worker may use its memory again. A
 * task that wants no more says so, and the worker serves the next one. A worker that dies fails the
 * task, which Spark runs again; but one that died while it was idle is passed over.
 */
final class BatchReader implements PartitionReader {
  private final ReadFactory factory;
  private final byte[][] messages;
  private final WorkerPool pool;
  private final RecordBatchMessage message = new RecordBatchMessage();
  private final Column[] columns;
  private final ColumnarBatch batch;
  private Worker worker;
  private boolean isFirst = true;
  private long bytes;
  private long fragments;

  BatchReader(ReadFactory factory, byte[][] messages) {
    this.factory = factory;
    this.messages = messages;
    pool = WorkerPool.of(factory.python);
    columns = Column.ofEach(factory.columns);
    batch = new ColumnarBatch(columns);
  }

  @Override
  public boolean next() throws IOException {
    if (isFirst) {
      isFirst = false;
      return start();
    }
    if (worker == null) {
      return false;
    }
    worker.out.write(Protocol.NEXT);
    worker.out.flush();
    return receive(worker.in.readInt());
  }

  @Override
  public Object get() {
    return batch;
  }

  @Override
  public CustomTaskMetric[] currentMetricsValues() {
    return new CustomTaskMetric[] {
      new Metrics.Value(Metrics.BYTES, bytes), new Metrics.Value(Metrics.FRAGMENTS, fragments)
    };
  }

  @Override
  public void close() {
    Worker left = worker;
    worker = null;
    if (left == null) {
      return;
    }
    boolean isSound = false;
    try {
      left.out.write(Protocol.STOP);
      left.out.flush();
      isSound = Protocol.passOver(left);
    } catch (IOException dead) {
      return;
    } finally {
      if (isSound) {
        pool.give(left);
      } else {
        pool.drop(left);
      }
    }
  }

  private boolean start() throws IOException {
    worker = pool.take();
    int kind;
    try {
      request(worker);
      kind = worker.in.readInt();
    } catch (IOException dead) {
      boolean wasUsed = worker.isUsed;
      release();
      if (!wasUsed || isKilled()) {
        throw died(dead);
      }
      worker = pool.takeNew();
      request(worker);
      kind = worker.in.readInt();
    }
    return receive(kind);
  }

  /** Whether somebody wants this task to end: then it was its worker that was let go. */
  private static boolean isKilled() {
    TaskContext task = TaskContext.get();
    return task != null && task.isInterrupted();
  }

  private void request(Worker worker) throws IOException {
    DataOutputStream out = worker.out;
    boolean isKnown = worker.known != null && java.util.Arrays.equals(worker.known, factory.work);
    out.write(Protocol.READ);
    Protocol.writeBytes(out, isKnown ? null : factory.work);
    worker.known = factory.work;
    Protocol.writeTexts(out, factory.columns.fieldNames());
    Protocol.writeText(out, factory.condition);
    out.writeLong(factory.limit);
    Protocol.writeMany(out, messages);
    out.flush();
  }

  /** What the worker answers, up to a batch or the end. Whatever else happens, it is let go. */
  private boolean receive(int first) throws IOException {
    boolean isSound = false;
    try {
      boolean found = answer(first);
      isSound = true;
      return found;
    } catch (IOException dead) {
      throw died(dead);
    } finally {
      if (!isSound && worker != null) {
        release();
      }
    }
  }

  private boolean answer(int first) throws IOException {
    int kind = first;
    while (true) {
      switch (kind) {
        case Protocol.MEMORY:
          Protocol.map(worker);
          break;
        case Protocol.LIST_SIZES:
          message.listSizes = Protocol.readInts(worker.in);
          break;
        case Protocol.BATCH:
          long size = worker.in.readLong();
          return load(worker.address(worker.in.readLong()), size);
        case Protocol.BATCH_HERE:
          int count = worker.in.readInt();
          return load(worker.receive(count), count);
        case Protocol.END:
          fragments = worker.in.readLong();
          giveBack();
          return false;
        case Protocol.ERROR:
          RuntimeException failure = worker.readError();
          giveBack();
          throw failure;
        default:
          throw new IOException("a worker answered " + kind);
      }
      kind = worker.in.readInt();
    }
  }

  private void giveBack() {
    Worker done = worker;
    worker = null;
    pool.give(done);
  }

  private boolean load(long address, long size) {
    message.open(address);
    for (int i = 0; i < columns.length; i++) {
      columns[i].set(message);
    }
    batch.setNumRows(message.rows);
    bytes += size;
    return true;
  }

  private void release() {
    pool.drop(worker);
    worker = null;
  }

  private static IOException died(IOException cause) {
    return cause instanceof EOFException
        ? new IOException("the Python worker that reads a table died; the task is run again", cause)
        : cause;
  }
}
