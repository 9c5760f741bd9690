package io.lancewood.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * What one query wants of a read: columns, conditions, a limit, or only the number of rows. Every
 * query has its own, so that none has the conditions of another.
 */
final class ReadBuilder
    implements ScanBuilder,
        SupportsPushDownRequiredColumns,
        SupportsPushDownV2Filters,
        SupportsPushDownAggregates,
        SupportsPushDownLimit {
  private static final long NO_LIMIT = -1;

  private final PlannedRead plan;
  private final ScanBuilder other;
  private StructType columns;
  private Predicate[] pushed = new Predicate[0];
  private String condition;
  private long limit = NO_LIMIT;
  private int counts;

  /** {@code other} is what reads it as a stream; null if nothing does. */
  ReadBuilder(PlannedRead plan, ScanBuilder other) {
    this.plan = plan;
    this.other = other;
    this.columns = plan.schema;
  }

  /** Whole columns: fields that nobody asks for are read with those beside them. */
  @Override
  public void pruneColumns(StructType required) {
    StructType wanted = new StructType();
    StructField[] fields = required.fields();
    for (int i = 0; i < fields.length; i++) {
      wanted = wanted.add(plan.schema.apply(fields[i].name()));
    }
    columns = wanted;
  }

  /** Takes the conditions that mean the same to the table; those that remain are Spark's. */
  @Override
  public Predicate[] pushPredicates(Predicate[] predicates) {
    Conditions conditions = new Conditions(plan);
    List taken = new ArrayList();
    List left = new ArrayList();
    for (int i = 0; i < predicates.length; i++) {
      (conditions.add(predicates[i]) ? taken : left).add(predicates[i]);
    }
    pushed = (Predicate[]) taken.toArray(new Predicate[0]);
    condition = conditions.text();
    return (Predicate[]) left.toArray(new Predicate[0]);
  }

  @Override
  public Predicate[] pushedPredicates() {
    return pushed;
  }

  @Override
  public boolean supportCompletePushDown(Aggregation aggregation) {
    return isCount(aggregation);
  }

  @Override
  public boolean pushAggregation(Aggregation aggregation) {
    if (!isCount(aggregation)) {
      return false;
    }
    counts = aggregation.aggregateExpressions().length;
    return true;
  }

  /** Each task stops there; Spark still counts. */
  @Override
  public boolean pushLimit(int rows) {
    limit = rows;
    return true;
  }

  @Override
  public boolean isPartiallyPushed() {
    return true;
  }

  @Override
  public Scan build() {
    if (counts > 0) {
      return new CountedScan(plan, counts);
    }
    Set read = new HashSet(Arrays.asList(plan.needed));
    StructField[] fields = columns.fields();
    for (int i = 0; i < fields.length; i++) {
      read.add(fields[i].name());
    }
    for (int i = 0; i < pushed.length; i++) {
      NamedReference[] references = pushed[i].references();
      for (int j = 0; j < references.length; j++) {
        read.add(references[j].fieldNames()[0]);
      }
    }
    return new ReadScan(plan, columns, condition, limit, read, other);
  }

  /** Whether only rows are counted, and the manifest has told how many there are. */
  private boolean isCount(Aggregation aggregation) {
    AggregateFunc[] functions = aggregation.aggregateExpressions();
    if (!plan.isCounted
        || condition != null
        || limit != NO_LIMIT
        || functions.length == 0
        || aggregation.groupByExpressions().length > 0) {
      return false;
    }
    for (int i = 0; i < functions.length; i++) {
      if (!(functions[i] instanceof CountStar)) {
        return false;
      }
    }
    return true;
  }

  /** How many rows there are, as the manifest tells it: no task runs. */
  private static final class CountedScan implements LocalScan {
    private final PlannedRead plan;
    private final int counts;

    CountedScan(PlannedRead plan, int counts) {
      this.plan = plan;
      this.counts = counts;
    }

    @Override
    public StructType readSchema() {
      StructType schema = new StructType();
      for (int i = 0; i < counts; i++) {
        schema = schema.add("count_" + i, DataTypes.LongType, false);
      }
      return schema;
    }

    @Override
    public String description() {
      return plan.name + ", counted by its manifest";
    }

    @Override
    public InternalRow[] rows() {
      Object[] values = new Object[counts];
      Arrays.fill(values, Long.valueOf(plan.rows));
      return new InternalRow[] {new GenericInternalRow(values)};
    }
  }
}
