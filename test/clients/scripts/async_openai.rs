use async_openai::{
    Client,
    config::OpenAIConfig,
    error::OpenAIError,
    types::{
        chat::{
            ChatCompletionMessageToolCalls, ChatCompletionRequestAssistantMessageArgs,
            ChatCompletionRequestToolMessageArgs, ChatCompletionRequestUserMessageArgs,
            ChatCompletionTool, ChatCompletionTools, CreateChatCompletionRequest,
            CreateChatCompletionRequestArgs, FunctionObjectArgs, ResponseFormat,
            ResponseFormatJsonSchema,
        },
        embeddings::CreateEmbeddingRequestArgs,
        responses::{CreateResponse, CreateResponseArgs, ResponseStreamEvent},
    },
};
use futures::StreamExt;
use serde_json::{Value, json};
use std::env::var;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn told(name: &str, outcome: Outcome) {
    let why = outcome
        .as_ref()
        .err()
        .map(|e| format!("{e:?}"))
        .unwrap_or_default();
    println!(
        "CASE {}",
        json!({ "name": name, "ok": outcome.is_ok(), "why": why })
    );
}

fn expect(seen: Value, wanted: Value) -> Outcome {
    if seen == wanted {
        Ok(())
    } else {
        Err(format!("{seen} is not {wanted}").into())
    }
}

fn client_with(token: &str) -> Client<OpenAIConfig> {
    let base = format!("{}/v1", var("SVC_URL").unwrap());
    let config = OpenAIConfig::new().with_api_base(base).with_api_key(token);
    Client::with_config(config)
}

fn chat(text: &str) -> CreateChatCompletionRequestArgs {
    let user = ChatCompletionRequestUserMessageArgs::default()
        .content(text)
        .build()
        .unwrap();
    let mut args = CreateChatCompletionRequestArgs::default();
    args.model(var("SVC_MODEL_ID").unwrap())
        .messages(vec![user.into()]);
    args
}

fn with_tool(text: &str) -> CreateChatCompletionRequest {
    let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    let function = FunctionObjectArgs::default()
        .name("weather")
        .parameters(schema)
        .build()
        .unwrap();
    let tool = ChatCompletionTools::Function(ChatCompletionTool { function });
    chat(text).tools(vec![tool]).build().unwrap()
}

fn response(text: &str) -> CreateResponse {
    CreateResponseArgs::default()
        .model(var("SVC_MODEL_ID").unwrap())
        .input(text)
        .build()
        .unwrap()
}

async fn whole(client: &Client<OpenAIConfig>) -> Outcome {
    let answer = client.chat().create(chat("hello there").build()?).await?;
    expect(
        json!(answer.choices[0].message.content),
        json!("You said: hello there"),
    )?;
    expect(
        json!(answer.usage.map(|usage| usage.completion_tokens)),
        json!(4),
    )
}

async fn streamed(client: &Client<OpenAIConfig>) -> Outcome {
    let mut chunks = client
        .chat()
        .create_stream(chat("hello there").stream(true).build()?)
        .await?;
    let mut text = String::new();
    while let Some(chunk) = chunks.next().await {
        for choice in chunk?.choices {
            text.push_str(&choice.delta.content.unwrap_or_default());
        }
    }
    expect(json!(text), json!("You said: hello there"))
}

async fn tool(client: &Client<OpenAIConfig>) -> Outcome {
    let mut asked = with_tool("call weather");
    let message = client.chat().create(asked.clone()).await?.choices[0]
        .message
        .clone();
    let calls = message.tool_calls.ok_or("no call")?;
    let ChatCompletionMessageToolCalls::Function(call) = &calls[0] else {
        return Err("no function".into());
    };
    expect(
        json!(call.function.arguments),
        json!("{\"city\":\"Paris\"}"),
    )?;
    let result = ChatCompletionRequestToolMessageArgs::default()
        .tool_call_id(call.id.clone())
        .content("rain")
        .build()?;
    let own = ChatCompletionRequestAssistantMessageArgs::default()
        .tool_calls(calls)
        .build()?;
    asked.messages.extend([own.into(), result.into()]);
    let answer = client.chat().create(asked).await?;
    expect(
        json!(answer.choices[0].message.content),
        json!("The tool said: rain"),
    )
}

async fn tool_in_a_stream(client: &Client<OpenAIConfig>) -> Outcome {
    let mut chunks = client
        .chat()
        .create_stream(CreateChatCompletionRequest {
            stream: Some(true),
            ..with_tool("call weather")
        })
        .await?;
    let mut written = String::new();
    while let Some(chunk) = chunks.next().await {
        for call in chunk?
            .choices
            .into_iter()
            .flat_map(|choice| choice.delta.tool_calls.unwrap_or_default())
        {
            written.push_str(
                &call
                    .function
                    .and_then(|function| function.arguments)
                    .unwrap_or_default(),
            );
        }
    }
    expect(json!(written), json!("{\"city\":\"Paris\"}"))
}

async fn schema(client: &Client<OpenAIConfig>) -> Outcome {
    let schema = json!({
        "type": "object", "properties": { "people": { "type": "integer" } },
        "required": ["people"], "additionalProperties": false
    });
    let json_schema = ResponseFormatJsonSchema {
        name: "place".into(),
        schema,
        strict: Some(true),
        description: None,
    };
    let asked = chat("7 people")
        .response_format(ResponseFormat::JsonSchema { json_schema })
        .build()?;
    let answer = client.chat().create(asked).await?;
    expect(
        json!(answer.choices[0].message.content),
        json!("{\"people\":7}"),
    )
}

async fn a_response(client: &Client<OpenAIConfig>) -> Outcome {
    let answer = client.responses().create(response("hello there")).await?;
    expect(json!(answer.output_text()), json!("You said: hello there"))
}

async fn a_response_streamed(client: &Client<OpenAIConfig>) -> Outcome {
    let mut events = client
        .responses()
        .create_stream(CreateResponse {
            stream: Some(true),
            ..response("hello there")
        })
        .await?;
    let (mut text, mut ended) = (String::new(), false);
    while let Some(event) = events.next().await {
        match event? {
            ResponseStreamEvent::ResponseOutputTextDelta(part) => text.push_str(&part.delta),
            ResponseStreamEvent::ResponseCompleted(_) => ended = true,
            _ => {}
        }
    }
    expect(json!([text, ended]), json!(["You said: hello there", true]))
}

async fn embeddings(client: &Client<OpenAIConfig>) -> Outcome {
    let asked = CreateEmbeddingRequestArgs::default()
        .model(var("SVC_EMBEDDING_ID")?)
        .input(["a", "b"])
        .build()?;
    let found = client.embeddings().create(asked).await?;
    expect(
        json!(
            found
                .data
                .iter()
                .map(|each| each.embedding.len())
                .collect::<Vec<_>>()
        ),
        json!([8, 8]),
    )
}

async fn models(client: &Client<OpenAIConfig>) -> Outcome {
    let name = var("SVC_MODEL_ID")?;
    expect(
        json!(
            client
                .models()
                .list()
                .await?
                .data
                .iter()
                .any(|model| model.id == name)
        ),
        json!(true),
    )
}

async fn errors(client: &Client<OpenAIConfig>) -> Outcome {
    let asked = chat("x").model("up/none").build()?;
    for (client, asked, code) in [
        (client, asked, "model_unknown"),
        (&client_with("wrong"), chat("x").build()?, "unauthorised"),
        (
            client,
            chat("x").temperature(9.0).build()?,
            "invalid_request",
        ),
    ] {
        match client.chat().create(asked).await {
            Err(OpenAIError::ApiError(error)) => expect(json!(error.api_error.code), json!(code))?,
            other => return Err(format!("{other:?}").into()),
        }
    }
    Ok(())
}

#[tokio::main]
async fn main() {
    let client = client_with(&var("SVC_TOKEN").unwrap());
    told("chat", whole(&client).await);
    told("chat, streamed", streamed(&client).await);
    told("a tool call and its result", tool(&client).await);
    told("a tool call in a stream", tool_in_a_stream(&client).await);
    told("an answer of a schema", schema(&client).await);
    told("a response", a_response(&client).await);
    told("a response, streamed", a_response_streamed(&client).await);
    told("embeddings", embeddings(&client).await);
    told("models", models(&client).await);
    told("errors have their code", errors(&client).await);
}
