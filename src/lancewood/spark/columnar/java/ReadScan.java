package io.lancewood.spark;

import java.util.Iterator;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;

/**
 * What one query reads, in how many tasks, and how large that is. It may turn out to be the query of
 * a stream, whose batches another source reads.
 */
final class ReadScan implements Scan, Batch, SupportsReportStatistics {
  private final PlannedRead plan;
  private final StructType columns;
  private final String condition;
  private final long limit;
  private final Set read;
  private final ScanBuilder other;
  private boolean isStreamed;

  /** {@code read} are the columns that are read, with those that only conditions need. */
  ReadScan(
      PlannedRead plan,
      StructType columns,
      String condition,
      long limit,
      Set read,
      ScanBuilder other) {
    this.plan = plan;
    this.columns = columns;
    this.condition = condition;
    this.limit = limit;
    this.read = read;
    this.other = other;
  }

  @Override
  public StructType readSchema() {
    return columns;
  }

  @Override
  public String description() {
    StringBuilder text = new StringBuilder("lance ").append(plan.name);
    if (condition != null) {
      text.append(" WHERE ").append(condition);
    }
    if (limit >= 0) {
      text.append(" LIMIT ").append(limit);
    }
    return text.toString();
  }

  @Override
  public Batch toBatch() {
    return this;
  }

  @Override
  public MicroBatchStream toMicroBatchStream(String checkpoint) {
    isStreamed = true;
    return other.build().toMicroBatchStream(checkpoint);
  }

  @Override
  public Scan.ColumnarSupportMode columnarSupportMode() {
    return isStreamed
        ? Scan.ColumnarSupportMode.PARTITION_DEFINED
        : Scan.ColumnarSupportMode.SUPPORTED;
  }

  @Override
  public InputPartition[] planInputPartitions() {
    int messages = plan.messages.length;
    int tasks = tasks();
    InputPartition[] found = new InputPartition[tasks];
    for (int i = 0; i < tasks; i++) {
      int first = (int) ((long) messages * i / tasks);
      int last = (int) ((long) messages * (i + 1) / tasks);
      byte[][] own = new byte[last - first][];
      System.arraycopy(plan.messages, first, own, 0, own.length);
      found[i] = new ReadFactory.Portion(own);
    }
    return found;
  }

  /**
   * As many tasks as were planned, if all columns are returned; fewer if what is read is not worth so
   * many. More than one round of them leaves no slot idle at its end.
   */
  private int tasks() {
    int planned = plan.messages.length;
    if (plan.rows < 0 || columns.length() >= plan.schema.length()) {
      return planned;
    }
    double bytes = 0;
    for (Iterator each = read.iterator(); each.hasNext(); ) {
      bytes += plan.bytes((String) each.next());
    }
    long wanted = Math.max(1, (long) Math.ceil(bytes / plan.worthwhile));
    if (wanted > plan.slots) {
      wanted = (wanted + plan.slots - 1) / plan.slots * plan.slots;
    }
    return (int) Math.min(planned, wanted);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return new ReadFactory(plan.python, plan.work, columns, condition, limit);
  }

  @Override
  public Statistics estimateStatistics() {
    return new Size(plan.bytes(columns), plan.rows);
  }

  @Override
  public CustomMetric[] supportedCustomMetrics() {
    return new CustomMetric[] {
      new Metrics.HandedOver(), new Metrics.Fragments(), new Metrics.Pruned()
    };
  }

  @Override
  public CustomTaskMetric[] reportDriverMetrics() {
    return new CustomTaskMetric[] {new Metrics.Value(Metrics.PRUNED, plan.pruned)};
  }

  /** Two reads of the same rows and columns are one, so that Spark exchanges them once. */
  @Override
  public boolean equals(Object other) {
    if (!(other instanceof ReadScan)) {
      return false;
    }
    ReadScan that = (ReadScan) other;
    return plan == that.plan
        && limit == that.limit
        && columns.equals(that.columns)
        && (condition == null ? that.condition == null : condition.equals(that.condition));
  }

  @Override
  public int hashCode() {
    return System.identityHashCode(plan) + 31 * columns.hashCode();
  }

  private static final class Size implements Statistics {
    private final long bytes;
    private final long rows;

    Size(long bytes, long rows) {
      this.bytes = bytes;
      this.rows = rows;
    }

    @Override
    public OptionalLong sizeInBytes() {
      return bytes < 0 ? OptionalLong.empty() : OptionalLong.of(bytes);
    }

    @Override
    public OptionalLong numRows() {
      return rows < 0 ? OptionalLong.empty() : OptionalLong.of(rows);
    }
  }
}
