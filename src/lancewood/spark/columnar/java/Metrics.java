package io.lancewood.spark;

import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** What Spark's pages show of a read, besides its rows. */
public final class Metrics {
  static final String BYTES = "bytesHandedOver";
  static final String FRAGMENTS = "fragmentsRead";
  static final String PRUNED = "fragmentsPruned";

  private Metrics() {}

  /** Spark makes one by its name. */
  public static class HandedOver extends CustomSumMetric {
    @Override
    public String name() {
      return BYTES;
    }

    @Override
    public String description() {
      return "bytes handed over by Python";
    }
  }

  /** Spark makes one by its name. */
  public static class Fragments extends CustomSumMetric {
    @Override
    public String name() {
      return FRAGMENTS;
    }

    @Override
    public String description() {
      return "fragments read";
    }
  }

  /** Spark makes one by its name. */
  public static class Pruned extends CustomSumMetric {
    @Override
    public String name() {
      return PRUNED;
    }

    @Override
    public String description() {
      return "fragments left out by the condition of read()";
    }
  }

  static final class Value implements CustomTaskMetric {
    private final String name;
    private final long value;

    Value(String name, long value) {
      this.name = name;
      this.value = value;
    }

    @Override
    public String name() {
      return name;
    }

    @Override
    public long value() {
      return value;
    }
  }
}
