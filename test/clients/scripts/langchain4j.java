import dev.langchain4j.agent.tool.Tool;
import dev.langchain4j.data.embedding.Embedding;
import dev.langchain4j.data.message.ImageContent;
import dev.langchain4j.data.message.TextContent;
import dev.langchain4j.data.message.UserMessage;
import dev.langchain4j.data.segment.TextSegment;
import dev.langchain4j.exception.AuthenticationException;
import dev.langchain4j.exception.InvalidRequestException;
import dev.langchain4j.exception.ModelNotFoundException;
import dev.langchain4j.model.anthropic.AnthropicChatModel;
import dev.langchain4j.model.anthropic.AnthropicStreamingChatModel;
import dev.langchain4j.model.chat.Capability;
import dev.langchain4j.model.chat.ChatModel;
import dev.langchain4j.model.chat.StreamingChatModel;
import dev.langchain4j.model.chat.response.ChatResponse;
import dev.langchain4j.model.chat.response.StreamingChatResponseHandler;
import dev.langchain4j.model.openai.OpenAiChatModel;
import dev.langchain4j.model.openai.OpenAiEmbeddingModel;
import dev.langchain4j.model.openai.OpenAiStreamingChatModel;
import dev.langchain4j.service.AiServices;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Collectors;

class langchain4j {
  static final String PNG =
      "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

  public record Place(String city, int people) {}

  interface Agent {
    String ask(String question);
  }

  interface Finder {
    Place find(String question);
  }

  public static class Weather {
    @Tool("The weather of a city.")
    public String weather(String city) {
      return "rain in " + city;
    }
  }

  static OpenAiChatModel.OpenAiChatModelBuilder openai() {
    return OpenAiChatModel.builder()
        .baseUrl(Cases.URL + "/v1")
        .apiKey(Cases.TOKEN)
        .modelName(Cases.MODEL)
        .maxRetries(0);
  }

  static AnthropicChatModel.AnthropicChatModelBuilder anthropic() {
    return AnthropicChatModel.builder()
        .baseUrl(Cases.URL + "/v1")
        .apiKey(Cases.TOKEN)
        .modelName(Cases.MODEL)
        .maxTokens(500)
        .maxRetries(0);
  }

  /** The pieces, and the whole answer after a bar. */
  static String streamed(StreamingChatModel model) throws Exception {
    CompletableFuture<String> whole = new CompletableFuture<>();
    StringBuilder pieces = new StringBuilder();
    model.chat(
        "hello there",
        new StreamingChatResponseHandler() {
          public void onPartialResponse(String piece) {
            pieces.append(piece);
          }

          public void onCompleteResponse(ChatResponse response) {
            whole.complete(pieces + "|" + response.aiMessage().text());
          }

          public void onError(Throwable error) {
            whole.completeExceptionally(error);
          }
        });
    return whole.get();
  }

  static void attemptAll(String name, ChatModel model, StreamingChatModel streaming) {
    Cases.attempt(
        name + ": text",
        () -> Cases.expect(model.chat("hello there"), "You said: hello there"));
    Cases.attempt(
        name + ": stream",
        () -> Cases.expect(streamed(streaming), "You said: hello there|You said: hello there"));
    Cases.attempt(
        name + ": an agent calls a tool",
        () -> {
          Agent agent = AiServices.builder(Agent.class).chatModel(model).tools(new Weather()).build();
          Cases.expect(agent.ask("call weather"), "The tool said: rain in Paris");
        });
    Cases.attempt(
        name + ": an image",
        () -> {
          UserMessage asked =
              UserMessage.from(TextContent.from("what?"), ImageContent.from(PNG, "image/png"));
          Cases.expect(model.chat(asked).aiMessage().text(), "You said: what? [image]");
        });
  }

  public static void main(String[] args) {
    attemptAll(
        "openai",
        openai().build(),
        OpenAiStreamingChatModel.builder()
            .baseUrl(Cases.URL + "/v1")
            .apiKey(Cases.TOKEN)
            .modelName(Cases.MODEL)
            .build());
    attemptAll(
        "anthropic",
        anthropic().build(),
        AnthropicStreamingChatModel.builder()
            .baseUrl(Cases.URL + "/v1")
            .apiKey(Cases.TOKEN)
            .modelName(Cases.MODEL)
            .maxTokens(500)
            .build());

    Cases.attempt(
        "an answer of a record",
        () -> {
          ChatModel model =
              openai()
                  .supportedCapabilities(Capability.RESPONSE_FORMAT_JSON_SCHEMA)
                  .strictJsonSchema(true)
                  .build();
          Place place = AiServices.create(Finder.class, model).find("7 people");
          Cases.expect(place, new Place("Paris", 7));
        });

    Cases.attempt(
        "embeddings",
        () -> {
          List<Embedding> found =
              OpenAiEmbeddingModel.builder()
                  .baseUrl(Cases.URL + "/v1")
                  .apiKey(Cases.TOKEN)
                  .modelName(Cases.EMBEDDING)
                  .build()
                  .embedAll(List.of(TextSegment.from("a"), TextSegment.from("b")))
                  .content();
          Cases.expect(
              found.stream().map(Embedding::dimension).collect(Collectors.toList()), List.of(8, 8));
        });

    Cases.attempt(
        "errors have their class",
        () ->
            Cases.expectErrors(
                Map.of(
                    AuthenticationException.class,
                    () -> openai().apiKey("wrong").build().chat("x"),
                    ModelNotFoundException.class,
                    () -> openai().modelName("up/none").build().chat("x"),
                    InvalidRequestException.class,
                    () -> openai().temperature(9.0).build().chat("x"))));
    System.exit(0);
  }
}
