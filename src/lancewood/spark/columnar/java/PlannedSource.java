package io.lancewood.spark;

import java.util.Base64;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A read that Python has planned already, as a source.
 *
 * <p>In one process the plan is left here under a token for as long as the frame is made. Over
 * Connect it comes in an option, whose name tells Spark to hide its value.
 */
public class PlannedSource implements TableProvider {
  static final String TOKEN = "plan";
  static final String ENCODED = "secret";
  private static final Map LEFT = new ConcurrentHashMap();

  /** Leave a plan for the frame that is made next; Python calls this. */
  public static void leave(String token, byte[] encoded) {
    LEFT.put(token, PlannedRead.decode(encoded));
  }

  /** The frame is made. */
  public static void forget(String token) {
    LEFT.remove(token);
  }

  /** Start the server of the Python that a plan would use, without waiting for it. */
  public static void warm(final String python, final String[] names, final String[] values) {
    final PythonCommand command = new PythonCommand(python, names, values, new String[0]);
    Thread starting = new Thread("lancewood-warm") {
      @Override
      public void run() {
        try {
          WorkerPool.of(command).warm();
        } catch (java.io.IOException later) {
          // The first task will say it.
          return;
        }
      }
    };
    starting.setDaemon(true);
    starting.start();
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return plan(options).schema;
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map properties) {
    return new ReadTable(plan(new CaseInsensitiveStringMap(properties)));
  }

  private static PlannedRead plan(CaseInsensitiveStringMap options) {
    String encoded = options.get(ENCODED);
    return encoded == null
        ? (PlannedRead) LEFT.get(options.get(TOKEN))
        : PlannedRead.decode(Base64.getDecoder().decode(encoded));
  }
}
