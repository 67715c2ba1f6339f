use futures::StreamExt;
use genai::{
    Client, ModelIden, ServiceTarget,
    adapter::AdapterKind,
    chat::{ChatMessage, ChatOptions, ChatRequest, ChatStreamEvent, JsonSpec, Tool, ToolResponse},
    resolver::{AuthData, Endpoint, ServiceTargetResolver},
};
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

fn client_of(kind: AdapterKind) -> Client {
    let path = if kind == AdapterKind::Ollama {
        ""
    } else {
        "v1/"
    };
    let base = format!("{}/{path}", var("SVC_URL").unwrap());
    let resolver = ServiceTargetResolver::from_resolver_fn(move |target: ServiceTarget| {
        Ok(ServiceTarget {
            endpoint: Endpoint::from_owned(base.clone()),
            auth: AuthData::from_single(var("SVC_TOKEN").unwrap()),
            model: ModelIden::new(kind, target.model.model_name),
        })
    });
    Client::builder()
        .with_service_target_resolver(resolver)
        .build()
        .unwrap()
}

async fn whole(client: &Client, model: &str) -> Outcome {
    let answer = client
        .exec_chat(model, ChatRequest::from_user("hello there"), None)
        .await?;
    expect(json!(answer.first_text()), json!("You said: hello there"))?;
    expect(json!(answer.usage.completion_tokens), json!(4))
}

async fn streamed(client: &Client, model: &str) -> Outcome {
    let asked = ChatRequest::from_user("hello there");
    let mut parts = client.exec_chat_stream(model, asked, None).await?.stream;
    let (mut text, mut ended) = (String::new(), false);
    while let Some(part) = parts.next().await {
        match part? {
            ChatStreamEvent::Chunk(chunk) => text.push_str(&chunk.content),
            ChatStreamEvent::End(_) => ended = true,
            _ => {}
        }
    }
    expect(json!([text, ended]), json!(["You said: hello there", true]))
}

async fn tool(client: &Client, model: &str) -> Outcome {
    let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    let weather = Tool::new("weather")
        .with_description("d")
        .with_schema(schema);
    let asked = ChatRequest::from_user("call weather").with_tools(vec![weather]);
    let first = client.exec_chat(model, asked.clone(), None).await?;
    let calls: Vec<_> = first.into_tool_calls();
    expect(calls[0].fn_arguments.clone(), json!({ "city": "Paris" }))?;
    let result = ToolResponse::new(calls[0].call_id.clone(), "rain");
    let asked = asked
        .append_message(ChatMessage::from(calls))
        .append_message(ChatMessage::from(result));
    let second = client.exec_chat(model, asked, None).await?;
    expect(json!(second.first_text()), json!("The tool said: rain"))
}

async fn schema(client: &Client, model: &str) -> Outcome {
    let schema = json!({
        "type": "object", "properties": { "people": { "type": "integer" } },
        "required": ["people"], "additionalProperties": false
    });
    let options = ChatOptions::default().with_response_format(JsonSpec::new("place", schema));
    let asked = ChatRequest::from_user("7 people");
    let answer = client.exec_chat(model, asked, Some(&options)).await?;
    expect(json!(answer.first_text()), json!("{\"people\":7}"))
}

async fn embeddings(client: &Client) -> Outcome {
    let texts = vec!["a".to_string(), "b".to_string()];
    let found = client
        .embed_batch(&var("SVC_EMBEDDING_ID")?, texts, None)
        .await?;
    let sizes: Vec<_> = found
        .embeddings
        .iter()
        .map(|each| each.vector.len())
        .collect();
    expect(json!(sizes), json!([8, 8]))
}

async fn unknown(client: &Client) -> Outcome {
    match client
        .exec_chat("up/none", ChatRequest::from_user("x"), None)
        .await
    {
        Err(error) if format!("{error:?}").contains("does not have the model") => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
}

#[tokio::main]
async fn main() {
    let model = var("SVC_MODEL_ID").unwrap();
    for kind in [AdapterKind::OpenAI, AdapterKind::Anthropic] {
        let client = client_of(kind);
        told(&format!("{kind}: chat"), whole(&client, &model).await);
        told(&format!("{kind}: stream"), streamed(&client, &model).await);
        told(
            &format!("{kind}: a tool call and its result"),
            tool(&client, &model).await,
        );
        told(&format!("{kind}: an unknown model"), unknown(&client).await);
    }
    let client = client_of(AdapterKind::OpenAI);
    told("an answer of a schema", schema(&client, &model).await);
    told("embeddings", embeddings(&client).await);
}
