import com.anthropic.client.AnthropicClient;
import com.anthropic.client.okhttp.AnthropicOkHttpClient;
import com.anthropic.core.JsonValue;
import com.anthropic.core.http.StreamResponse;
import com.anthropic.errors.BadRequestException;
import com.anthropic.errors.NotFoundException;
import com.anthropic.errors.UnauthorizedException;
import com.anthropic.helpers.MessageAccumulator;
import com.anthropic.models.messages.ContentBlockParam;
import com.anthropic.models.messages.Message;
import com.anthropic.models.messages.MessageCountTokensParams;
import com.anthropic.models.messages.MessageCreateParams;
import com.anthropic.models.messages.RawMessageStreamEvent;
import com.anthropic.models.messages.Tool;
import com.anthropic.models.messages.ToolResultBlockParam;
import com.anthropic.models.messages.ToolUseBlock;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** The client compares each message, and each event of a stream, with the API's description. */
class anthropic_java {
  static final Tool WEATHER =
      Tool.builder()
          .name("weather")
          .inputSchema(
              Tool.InputSchema.builder()
                  .properties(JsonValue.from(Map.of("city", Map.of("type", "string"))))
                  .build())
          .build();

  static final AnthropicClient client = clientWith(Cases.TOKEN);

  static AnthropicClient clientWith(String token) {
    return AnthropicOkHttpClient.builder()
        .baseUrl(Cases.URL)
        .apiKey(token)
        .maxRetries(0)
        .responseValidation(true)
        .build();
  }

  static MessageCreateParams.Builder message(String text) {
    return MessageCreateParams.builder().model(Cases.MODEL).maxTokens(2000).addUserMessage(text);
  }

  static Message whole(MessageCreateParams asked) {
    return client.messages().create(asked).validate();
  }

  static Message streamed(MessageCreateParams asked) {
    MessageAccumulator whole = MessageAccumulator.create();
    try (StreamResponse<RawMessageStreamEvent> events = client.messages().createStreaming(asked)) {
      events.stream().forEach(event -> whole.accumulate(event.validate()));
    }
    return whole.message().validate();
  }

  static String textOf(Message message) {
    return message.content().get(message.content().size() - 1).asText().text();
  }

  interface Way {
    Message ask(MessageCreateParams asked);
  }

  public static void main(String[] args) {
    Map<String, Way> ways = 
        new TreeMap<>(Map.of("", anthropic_java::whole, ", streamed", anthropic_java::streamed));
    ways.forEach(
        (in, way) -> {
          Cases.attempt(
              "a message" + in,
              () -> {
                Message answer = way.ask(message("hello there").build());
                Cases.expect(textOf(answer), "You said: hello there");
                Cases.expect(answer.usage().outputTokens(), 4L);
              });

          Cases.attempt(
              "thinking" + in,
              () -> {
                Message answer =
                    way.ask(message("hello there").model(Cases.THINKING).enabledThinking(1024).build());
                Cases.expect(answer.content().get(0).isThinking(), true);
                Cases.expect(textOf(answer), "You said: hello there");
              });

          Cases.attempt(
              "a tool and its result" + in,
              () -> {
                MessageCreateParams.Builder talk = message("call weather").addTool(WEATHER);
                Message first = way.ask(talk.build());
                ToolUseBlock call = first.content().get(0).asToolUse();
                Cases.expect(call._input().convert(Map.class), Map.of("city", "Paris"));
                talk.addMessage(first);
                talk.addUserMessageOfContentBlockParams(
                    List.of(
                        ContentBlockParam.ofToolResult(
                            ToolResultBlockParam.builder().toolUseId(call.id()).content("rain").build())));
                Cases.expect(textOf(way.ask(talk.build())), "The tool said: rain");
              });
        });

    Cases.attempt(
        "tokens are counted",
        () ->
            Cases.expect(
                client
                        .messages()
                        .countTokens(
                            MessageCountTokensParams.builder()
                                .model("local/svc-mini")
                                .addUserMessage("hello there")
                                .build())
                        .validate()
                        .inputTokens()
                    > 0,
                true));

    Cases.attempt(
        "models",
        () ->
            Cases.expect(
                client.models().list().autoPager().stream()
                    .anyMatch(model -> model.validate().id().equals(Cases.MODEL)),
                true));

    Cases.attempt(
        "errors have their class",
        () ->
            Cases.expectErrors(
                Map.of(
                    UnauthorizedException.class,
                    () -> clientWith("wrong").messages().create(message("x").build()),
                    NotFoundException.class,
                    () -> whole(message("x").model("up/none").build()),
                    BadRequestException.class,
                    () -> whole(message("x").maxTokens(-1).build()))));
    System.exit(0);
  }
}
