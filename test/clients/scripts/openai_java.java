import com.openai.client.OpenAIClient;
import com.openai.client.okhttp.OpenAIOkHttpClient;
import com.openai.core.http.StreamResponse;
import com.openai.errors.BadRequestException;
import com.openai.errors.NotFoundException;
import com.openai.errors.UnauthorizedException;
import com.openai.helpers.ChatCompletionAccumulator;
import com.openai.helpers.ResponseAccumulator;
import com.openai.models.chat.completions.ChatCompletion;
import com.openai.models.chat.completions.ChatCompletionChunk;
import com.openai.models.chat.completions.ChatCompletionCreateParams;
import com.openai.models.chat.completions.ChatCompletionMessage;
import com.openai.models.chat.completions.ChatCompletionMessageFunctionToolCall;
import com.openai.models.chat.completions.ChatCompletionStreamOptions;
import com.openai.models.chat.completions.ChatCompletionToolMessageParam;
import com.openai.models.completions.CompletionCreateParams;
import com.openai.models.conversations.Conversation;
import com.openai.models.conversations.ConversationCreateParams;
import com.openai.models.embeddings.EmbeddingCreateParams;
import com.openai.models.responses.Response;
import com.openai.models.responses.ResponseCompactParams;
import com.openai.models.responses.ResponseCreateParams;
import com.openai.models.responses.ResponseFunctionToolCall;
import com.openai.models.responses.ResponseInputItem;
import com.openai.models.responses.ResponseStreamEvent;
import com.openai.models.responses.Tool;
import com.openai.models.responses.inputtokens.InputTokenCountParams;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/** The client compares each response, and each event of a stream, with the API's description. */
class openai_java {
  public static class Place {
    public String city;
    public int people;
  }

  @com.fasterxml.jackson.annotation.JsonClassDescription("The weather of a city.")
  public static class Weather {
    public String city;
  }

  static final OpenAIClient client = clientWith(Cases.TOKEN);

  static OpenAIClient clientWith(String token) {
    return OpenAIOkHttpClient.builder()
        .baseUrl(Cases.URL + "/v1")
        .apiKey(token)
        .maxRetries(0)
        .responseValidation(true)
        .build();
  }

  static ChatCompletionCreateParams.Builder chat(String text) {
    return ChatCompletionCreateParams.builder().model(Cases.MODEL).addUserMessage(text);
  }

  static ResponseCreateParams.Builder response(String text) {
    return ResponseCreateParams.builder().model(Cases.MODEL).input(text);
  }

  static String textOf(Response response) {
    return response.output().stream()
        .flatMap(item -> item.message().stream())
        .flatMap(message -> message.content().stream())
        .flatMap(part -> part.outputText().stream())
        .map(text -> text.text())
        .collect(Collectors.joining());
  }

  static ResponseFunctionToolCall callOf(Response response) {
    return response.output().stream()
        .flatMap(item -> item.functionCall().stream())
        .findFirst()
        .get();
  }

  static ResponseInputItem.FunctionCallOutput resultOf(ResponseFunctionToolCall call) {
    String city = call.arguments(Weather.class).city;
    return ResponseInputItem.FunctionCallOutput.builder()
        .callId(call.callId())
        .output("rain in " + city)
        .build();
  }

  static Response streamed(ResponseCreateParams params) {
    ResponseAccumulator whole = ResponseAccumulator.create();
    try (StreamResponse<ResponseStreamEvent> events = client.responses().createStreaming(params)) {
      events.stream().forEach(event -> whole.accumulate(event.validate()));
    }
    return whole.response().validate();
  }

  static ChatCompletion streamed(ChatCompletionCreateParams params) {
    ChatCompletionAccumulator whole = ChatCompletionAccumulator.create();
    try (StreamResponse<ChatCompletionChunk> chunks =
        client.chat().completions().createStreaming(params)) {
      chunks.stream().forEach(chunk -> whole.accumulate(chunk.validate()));
    }
    return whole.chatCompletion().validate();
  }

  public static void main(String[] args) {
    Cases.attempt(
        "chat",
        () -> {
          ChatCompletion answer = client.chat().completions().create(chat("hello there").build()).validate();
          Cases.expect(answer.choices().get(0).message().content().get(), "You said: hello there");
          Cases.expect(answer.usage().get().completionTokens(), 4L);
        });

    Cases.attempt(
        "chat, streamed with usage",
        () -> {
          ChatCompletion answer =
              streamed(
                  chat("hello there")
                      .streamOptions(ChatCompletionStreamOptions.builder().includeUsage(true).build())
                      .build());
          Cases.expect(answer.choices().get(0).message().content().get(), "You said: hello there");
          Cases.expect(answer.usage().get().completionTokens(), 4L);
        });

    Cases.attempt(
        "reasoning and logprobs",
        () -> {
          ChatCompletion answer =
              client
                  .chat()
                  .completions()
                  .create(chat("hello there").model(Cases.THINKING).logprobs(true).topLogprobs(2).build())
                  .validate();
          ChatCompletion.Choice choice = answer.choices().get(0);
          Cases.expect(choice.message().content().get(), "You said: hello there");
          Cases.expect(choice.logprobs().get().content().get().get(0).topLogprobs().size(), 2);
          Cases.expect(
              answer.usage().get().completionTokensDetails().isPresent(), true);
        });

    Cases.attempt(
        "a tool call and its result",
        () -> {
          ChatCompletionCreateParams.Builder talk = chat("call Weather").addTool(Weather.class);
          ChatCompletionMessage message =
              client.chat().completions().create(talk.build()).validate().choices().get(0).message();
          ChatCompletionMessageFunctionToolCall call = message.toolCalls().get().get(0).asFunction();
          Cases.expect(call.function().arguments(Weather.class).city, "Paris");
          talk.addMessage(message);
          talk.addMessage(
              ChatCompletionToolMessageParam.builder()
                  .toolCallId(call.id())
                  .content("rain in Paris")
                  .build());
          ChatCompletion answer = client.chat().completions().create(talk.build()).validate();
          Cases.expect(
              answer.choices().get(0).message().content().get(), "The tool said: rain in Paris");
        });

    Cases.attempt(
        "two tool calls in a stream",
        () -> {
          ChatCompletion answer =
              streamed(chat("call Weather twice").addTool(Weather.class).build());
          List<String> cities =
              answer.choices().get(0).message().toolCalls().get().stream()
                  .map(call -> call.asFunction().function().arguments(Weather.class).city)
                  .collect(Collectors.toList());
          Cases.expect(cities, List.of("Paris", "Paris"));
        });

    Cases.attempt(
        "an answer of a class",
        () -> {
          Place place =
              client
                  .chat()
                  .completions()
                  .create(chat("hello there").responseFormat(Place.class).build())
                  .validate()
                  .choices()
                  .get(0)
                  .message()
                  .content()
                  .get();
          Cases.expect(place.city + place.people, "Paris2");
        });

    Cases.attempt(
        "the older completions",
        () -> {
          CompletionCreateParams asked =
              CompletionCreateParams.builder().model(Cases.MODEL).prompt("hello there").build();
          Cases.expect(
              client.completions().create(asked).validate().choices().get(0).text(),
              "You said: hello there");
        });

    Cases.attempt(
        "a response",
        () -> {
          Response answer = client.responses().create(response("hello there").build()).validate();
          Cases.expect(textOf(answer), "You said: hello there");
          Cases.expect(answer.usage().get().outputTokens(), 4L);
          Cases.expect(
              textOf(client.responses().retrieve(answer.id()).validate()), "You said: hello there");
        });

    Cases.attempt(
        "a response, streamed",
        () -> {
          Response answer = streamed(response("hello there").build());
          Cases.expect(textOf(answer), "You said: hello there");
          Cases.expect(answer.usage().get().inputTokensDetails().cacheWriteTokens(), 0L);
        });

    Cases.attempt(
        "a response with reasoning, streamed",
        () -> {
          Response answer = streamed(response("hello there").model(Cases.THINKING).build());
          Cases.expect(textOf(answer), "You said: hello there");
          Cases.expect(answer.output().get(0).isReasoning(), true);
        });

    Cases.attempt(
        "a tool of a response",
        () -> {
          Response first =
              client.responses().create(response("call Weather").addTool(Weather.class).build()).validate();
          ResponseCreateParams next =
              ResponseCreateParams.builder()
                  .model(Cases.MODEL)
                  .previousResponseId(first.id())
                  .addTool(Weather.class)
                  .inputOfResponse(List.of(ResponseInputItem.ofFunctionCallOutput(resultOf(callOf(first)))))
                  .build();
          Cases.expect(
              textOf(client.responses().create(next).validate()), "The tool said: rain in Paris");
        });

    Cases.attempt(
        "a tool of a response, streamed",
        () -> {
          Response answer =
              streamed(response("call Weather").addTool(Weather.class).build());
          Cases.expect(callOf(answer).arguments(Weather.class).city, "Paris");
        });

    Cases.attempt(
        "a response of a class",
        () -> {
          Place place =
              client
                  .responses()
                  .create(response("hello there").text(Place.class).build())
                  .validate()
                  .output()
                  .stream()
                  .flatMap(item -> item.message().stream())
                  .flatMap(message -> message.content().stream())
                  .flatMap(part -> part.outputText().stream())
                  .findFirst()
                  .get();
          Cases.expect(place.city + place.people, "Paris2");
        });

    Cases.attempt(
        "a conversation",
        () -> {
          Conversation talk =
              client.conversations().create(ConversationCreateParams.none()).validate();
          client.responses().create(response("hello there").conversation(talk.id()).build()).validate();
          List<String> said =
              client.conversations().items().list(talk.id()).autoPager().stream()
                  .map(item -> item.validate().isMessage() ? "message" : "other")
                  .collect(Collectors.toList());
          Cases.expect(said, List.of("message", "message"));
        });

    Cases.attempt(
        "what a response was asked",
        () -> {
          Response answer = client.responses().create(response("hello there").build()).validate();
          Cases.expect(
              client.responses().inputItems().list(answer.id()).autoPager().stream()
                  .map(item -> item.validate().isResponseInputMessageItem())
                  .collect(Collectors.toList()),
              List.of(true));
          client.responses().delete(answer.id());
          Cases.expect(
              Cases.thrown(() -> client.responses().retrieve(answer.id())).getClass(),
              NotFoundException.class);
        });

    Cases.attempt(
        "tokens of an input",
        () ->
            Cases.expect(
                client
                        .responses()
                        .inputTokens()
                        .count(
                            InputTokenCountParams.builder()
                                .model("local/svc-mini")
                                .input("hello there")
                                .build())
                        .validate()
                        .inputTokens()
                    > 0,
                true));

    Cases.attempt(
        "a compacted conversation",
        () ->
            Cases.expect(
                client
                    .responses()
                    .compact(
                        ResponseCompactParams.builder()
                            .model(ResponseCompactParams.Model.of(Cases.MODEL))
                            .input("hello there")
                            .build())
                    .validate()
                    .output()
                    .stream()
                    .anyMatch(item -> item.isCompaction()),
                true));

    Cases.attempt(
        "a tool of a server, approved",
        () -> {
          Tool desk = Tool.ofMcp(Tool.Mcp.builder().serverLabel("desk").build());
          Response first = streamed(response("desk__echo 'blue'").addTool(desk).build());
          String id =
              first.output().stream()
                  .flatMap(item -> item.mcpApprovalRequest().stream())
                  .findFirst()
                  .get()
                  .id();
          Response second =
              streamed(
                  ResponseCreateParams.builder()
                      .model(Cases.MODEL)
                      .previousResponseId(first.id())
                      .addTool(desk)
                      .inputOfResponse(
                          List.of(
                              ResponseInputItem.ofMcpApprovalResponse(
                                  ResponseInputItem.McpApprovalResponse.builder()
                                      .approvalRequestId(id)
                                      .approve(true)
                                      .build())))
                      .build());
          Cases.expect(textOf(second), "The tool said: blue");
        });

    Cases.attempt(
        "embeddings",
        () -> {
          List<Integer> sizes =
              client
                  .embeddings()
                  .create(
                      EmbeddingCreateParams.builder()
                          .model(Cases.EMBEDDING)
                          .inputOfArrayOfStrings(List.of("a", "b"))
                          .build())
                  .validate()
                  .data()
                  .stream()
                  .map(each -> each.embedding().size())
                  .collect(Collectors.toList());
          Cases.expect(sizes, List.of(8, 8));
        });

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
                    () -> clientWith("wrong").chat().completions().create(chat("x").build()),
                    NotFoundException.class,
                    () -> client.chat().completions().create(chat("x").model("up/none").build()),
                    BadRequestException.class,
                    () -> client.responses().create(response("x").temperature(9.0).build()))));
    System.exit(0);
  }
}
