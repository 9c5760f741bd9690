package io.lancewood.spark;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.util.LinkedHashMap;
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
 * <p>The plan is left here under a token for as long as the frame is made. A client of Spark
 * Connect, which cannot do that, leaves it with its session, and every request names it by its
 * digest. Options are all that a plan of Spark's, its pages and its event log have of a read, and
 * neither of these two says anything: a plan has storage options inside, and is pickled.
 */
public class PlannedSource implements TableProvider {
  private static final String TOKEN = "plan";
  private static final String DIGEST = "digest";
  private static final int MOST_OPENED = 16;
  private static final Map WAITING = new ConcurrentHashMap();
  /** Plans that were opened last, so that two uses of one frame are uses of one plan. */
  private static final Map OPENED = new LinkedHashMap();

  private PlannedRead plan;

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

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    String token = options.get(TOKEN);
    String digest = options.get(DIGEST);
    plan = digest != null ? left(digest) : token == null ? null : (PlannedRead) WAITING.get(token);
    if (plan == null) {
      throw new IllegalArgumentException(
          "there is no such plan of a read: this source is for lancewood.spark.read alone. Use"
              + " that, or format(\"lance\")");
    }
    return plan.schema;
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map properties) {
    return new ReadTable(plan);
  }

  private static PlannedRead left(String digest) {
    SessionArtifact artifact = new SessionArtifact(digest);
    synchronized (OPENED) {
      PlannedRead found = (PlannedRead) OPENED.get(artifact.key());
      if (found == null) {
        if (OPENED.size() >= MOST_OPENED) {
          OPENED.clear();
        }
        found = PlannedRead.decode(artifact.read());
        OPENED.put(artifact.key(), found);
      }
      return found;
    }
  }
}
