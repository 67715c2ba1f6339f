import java.time.Duration;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.springframework.ai.anthropic.AnthropicChatModel;
import org.springframework.ai.anthropic.AnthropicChatOptions;
import org.springframework.ai.chat.client.ChatClient;
import org.springframework.ai.chat.model.ChatModel;
import org.springframework.ai.chat.model.ChatResponse;
import org.springframework.ai.embedding.EmbeddingModel;
import org.springframework.ai.ollama.OllamaChatModel;
import org.springframework.ai.ollama.OllamaEmbeddingModel;
import org.springframework.ai.ollama.api.OllamaApi;
import org.springframework.ai.ollama.api.OllamaChatOptions;
import org.springframework.ai.ollama.api.OllamaEmbeddingOptions;
import org.springframework.ai.openai.OpenAiChatModel;
import org.springframework.ai.openai.OpenAiChatOptions;
import org.springframework.ai.openai.OpenAiEmbeddingModel;
import org.springframework.ai.openai.OpenAiEmbeddingOptions;
import org.springframework.ai.tool.annotation.Tool;
import org.springframework.core.io.ByteArrayResource;
import org.springframework.util.MimeTypeUtils;
import reactor.core.publisher.Flux;

class spring_ai {
  static final String PNG =
      "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

  public record Place(String city, int people) {}

  public static class Weather {
    @Tool(description = "The weather of a city.")
    public String weather(String city) {
      return "rain in " + city;
    }
  }

  static ChatModel openai(String token, String model) {
    OpenAiChatOptions.Builder options = new OpenAiChatOptions.Builder();
    options.baseUrl(Cases.URL + "/v1");
    options.apiKey(token);
    options.model(model);
    options.maxRetries(0);
    return OpenAiChatModel.builder().options(options.build()).build();
  }

  static ChatModel anthropic() {
    AnthropicChatOptions.Builder options = new AnthropicChatOptions.Builder();
    options.baseUrl(Cases.URL);
    options.apiKey(Cases.TOKEN);
    options.model(Cases.MODEL);
    options.maxTokens(500);
    options.maxRetries(0);
    return AnthropicChatModel.builder().options(options.build()).build();
  }

  static OllamaApi ollama() {
    return OllamaApi.builder().baseUrl(Cases.URL + "/t/" + Cases.TOKEN).build();
  }

  static String joined(Flux<String> pieces) {
    return String.join("", pieces.collectList().block(Duration.ofSeconds(60)));
  }

  static void attemptAll(String name, ChatModel model) {
    ChatClient client = ChatClient.create(model);
    Cases.attempt(
        name + ": text",
        () -> {
          ChatResponse answer = client.prompt("hello there").call().chatResponse();
          Cases.expect(answer.getResult().getOutput().getText(), "You said: hello there");
          Cases.expect(answer.getMetadata().getUsage().getCompletionTokens(), 4);
        });
    Cases.attempt(
        name + ": stream",
        () -> {
          Cases.expect(
              joined(client.prompt("hello there").stream().content()), "You said: hello there");
        });
    Cases.attempt(
        name + ": a tool",
        () ->
            Cases.expect(
                client.prompt("call weather").tools(new Weather()).call().content(),
                "The tool said: \"rain in Paris\""));
    Cases.attempt(
        name + ": a tool in a stream",
        () -> {
          Cases.expect(
              joined(client.prompt("call weather").tools(new Weather()).stream().content()),
              "The tool said: \"rain in Paris\"");
        });
    Cases.attempt(
        name + ": an image",
        () -> {
          ByteArrayResource image = new ByteArrayResource(Base64.getDecoder().decode(PNG));
          String said =
              client
                  .prompt()
                  .user(user -> user.text("what?").media(MimeTypeUtils.IMAGE_PNG, image))
                  .call()
                  .content();
          Cases.expect(said.contains("[image]"), true);
        });
  }

  static void attemptVectors(String name, EmbeddingModel model) {
    Cases.attempt(
        name + ": embeddings",
        () ->
            Cases.expect(
                model.embed(List.of("a", "b")).stream()
                    .map(each -> each.length)
                    .collect(Collectors.toList()),
                List.of(8, 8)));
  }

  public static void main(String[] args) {
    attemptAll("openai", openai(Cases.TOKEN, Cases.MODEL));
    attemptAll("anthropic", anthropic());
    attemptAll(
        "ollama",
        OllamaChatModel.builder()
            .ollamaApi(ollama())
            .options(OllamaChatOptions.builder().model(Cases.MODEL).build())
            .build());

    Cases.attempt(
        "an answer of a record",
        () -> {
          ChatClient client = ChatClient.create(openai(Cases.TOKEN, Cases.MODEL));
          Place place =
              client
                  .prompt("7 people")
                  .call()
                  .entity(Place.class, options -> options.useProviderStructuredOutput());
          Cases.expect(place, new Place("Paris", 7));
        });

    OpenAiEmbeddingOptions.Builder options = new OpenAiEmbeddingOptions.Builder();
    options.baseUrl(Cases.URL + "/v1");
    options.apiKey(Cases.TOKEN);
    options.model(Cases.EMBEDDING);
    attemptVectors("openai", new OpenAiEmbeddingModel(options.build()));
    attemptVectors(
        "ollama",
        OllamaEmbeddingModel.builder()
            .ollamaApi(ollama())
            .options(OllamaEmbeddingOptions.builder().model(Cases.EMBEDDING).build())
            .build());

    Cases.attempt(
        "errors have their class",
        () ->
            Cases.expectErrors(
                Map.of(
                    com.openai.errors.UnauthorizedException.class,
                    () -> openai("wrong", Cases.MODEL).call("x"),
                    com.openai.errors.NotFoundException.class,
                    () -> openai(Cases.TOKEN, "up/none").call("x"))));
    System.exit(0);
  }
}
