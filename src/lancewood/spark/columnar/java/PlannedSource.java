package io.lancewood.spark;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.util.Enumeration;
import java.util.Locale;
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
 * <p>The plan is left here under a token for as long as the frame is made.
 */
public class PlannedSource implements TableProvider {
  static final String TOKEN = "plan";
  private static final String REGISTER =
      "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister";
  private static final String OURS = "io.lancewood.spark.lance";
  private static final Map WAITING = new ConcurrentHashMap();

  /** Leave a plan for the frame that is made next; Python calls this. */
  public static void leave(String token, byte[] encoded) {
    WAITING.put(token, PlannedRead.decode(encoded));
  }

  /** The frame is made. */
  public static void forget(String token) {
    WAITING.remove(token);
  }

  /** The Python of this driver; with {@code isWarm} its server is started, without waiting. */
  public static void introduce(byte[] encoded, boolean isWarm) throws IOException {
    final PythonCommand command =
        PythonCommand.decode(new DataInputStream(new ByteArrayInputStream(encoded)));
    PythonCommand.ofDriver = command;
    if (!isWarm) {
      return;
    }
    Thread starting = new Thread("lancewood-warm") {
      @Override
      public void run() {
        try {
          WorkerPool.of(command).warm();
        } catch (IOException later) {
          // The first task will say it.
          return;
        }
      }
    };
    starting.setDaemon(true);
    starting.start();
  }

  /** Whether another source of this Spark's is called lance; its name tells. */
  public static boolean isNameTaken() throws IOException {
    ClassLoader loader = Thread.currentThread().getContextClassLoader();
    Enumeration files = loader.getResources(REGISTER);
    while (files.hasMoreElements()) {
      InputStream in = ((URL) files.nextElement()).openStream();
      try {
        String text = new String(in.readAllBytes(), StandardCharsets.UTF_8);
        if (text.toLowerCase(Locale.ROOT).replace(OURS, "").contains("lance")) {
          return true;
        }
      } finally {
        in.close();
      }
    }
    return false;
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
    return (PlannedRead) WAITING.get(options.get(TOKEN));
  }
}
