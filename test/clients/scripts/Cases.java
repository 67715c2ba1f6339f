import java.util.Map;
import java.util.Objects;

/** What the scripts share: each case prints its outcome as one line. */
final class Cases {
  static final String URL = System.getenv("SVC_URL");
  static final String TOKEN = System.getenv("SVC_TOKEN");
  static final String MODEL = System.getenv("SVC_MODEL_ID");
  static final String THINKING = System.getenv("SVC_THINKING_ID");
  static final String EMBEDDING = System.getenv("SVC_EMBEDDING_ID");

  interface Work {
    void run() throws Exception;
  }

  static void attempt(String name, Work work) {
    String why = null;
    try {
      work.run();
    } catch (Throwable thrown) {
      why = String.valueOf(thrown);
      // Clients wrap what happened.
      if (thrown.getCause() != null) why += " because " + thrown.getCause();
    }
    String rest = why == null ? "true, \"why\": \"\"" : "false, \"why\": " + quoted(why);
    System.out.println("CASE {\"name\": " + quoted(name) + ", \"ok\": " + rest + "}");
  }

  static void expect(Object seen, Object wanted) {
    if (!Objects.equals(seen, wanted)) throw new AssertionError(seen + " is not " + wanted);
  }

  /** The class of what each call throws, by the name of the class. */
  static void expectErrors(Map<Class<? extends Throwable>, Work> calls) throws Exception {
    for (Map.Entry<Class<? extends Throwable>, Work> each : calls.entrySet())
      expect(thrown(each.getValue()).getClass(), each.getKey());
  }

  static Throwable thrown(Work work) {
    try {
      work.run();
    } catch (Throwable thrown) {
      return thrown;
    }
    throw new AssertionError("no error");
  }

  private static String quoted(String text) {
    StringBuilder line = new StringBuilder("\"");
    text.substring(0, Math.min(300, text.length()))
        .chars()
        .forEach(
            sign -> {
              if (sign == '"' || sign == '\\') line.append('\\');
              line.append(sign < ' ' ? ' ' : (char) sign);
            });
    return line.append('"').toString();
  }
}
