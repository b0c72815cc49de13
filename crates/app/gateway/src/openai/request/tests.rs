//! Requests as real clients write them, and as nobody should.

use super::*;

const TOKENS: u32 = 1_000;

fn chat(body: &str) -> Result<(ChatRequest, Delivery), Problem> {
    read::<GenerateBody>(body.as_bytes())?.chat(TOKENS)
}

fn complete(body: &str) -> Result<(CompletionRequest, Delivery), Problem> {
    read::<GenerateBody>(body.as_bytes())?.complete(TOKENS)
}

fn embed(body: &str) -> Result<(EmbeddingRequest, Encoding), Problem> {
    read::<EmbedBody>(body.as_bytes())?.checked()
}

/// A chat with one message and these fields.
fn with(fields: &str) -> Result<(ChatRequest, Delivery), Problem> {
    chat(&format!(r#"{{"model":"m","messages":[{{"role":"user","content":"hi"}}],{fields}}}"#))
}

fn param<T: std::fmt::Debug>(refused: Result<T, Problem>) -> String {
    let json: serde_json::Value = serde_json::from_slice(&refused.unwrap_err().json()).unwrap();
    assert_eq!(json["error"]["type"], "invalid_request_error");
    json["error"]["param"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_chat_is_read_with_everything_that_real_clients_send() {
    let (request, delivery) = chat(
        r#"{"model":"m","messages":[
            {"role":"developer","content":"be brief"},
            {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"name":"ann"},
            {"role":"assistant","content":"c","refusal":null,"tool_calls":null}],
            "stream":true,"stream_options":{"include_usage":true},"temperature":0,"top_p":1,
            "seed":-7,"stop":"\n","max_tokens":5,"max_completion_tokens":9,"logprobs":true,
            "top_logprobs":2,"n":1,"response_format":{"type":"text"},"tools":[],"logit_bias":{},
            "user":"u","metadata":{"a":"b"},"store":false,"something_new":[1,{"x":null}]}"#,
    )
    .unwrap();
    let roles: Vec<_> = request.messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::System, Role::User, Role::Assistant]);
    assert_eq!(request.messages[1].text, "a\nb");
    assert_eq!(request.messages[1].name.as_deref(), Some("ann"));
    assert_eq!(delivery, Delivery { stream: true, include_usage: true });
    let wanted = Sampling {
        temperature: Some(0.0),
        top_p: Some(1.0),
        seed: Some(-7),
        stop: vec!["\n".into()],
        max_tokens: Some(9),
        top_logprobs: Some(2),
        ..Sampling::default()
    };
    assert_eq!(request.sampling, wanted);
}

#[test]
fn what_would_change_the_answer_and_is_not_offered_is_refused_by_name() {
    for (fields, named) in [
        (r#""n":2"#, "n"),
        (r#""tools":[{"type":"function"}]"#, "tools"),
        (r#""functions":[{}]"#, "tools"),
        (r#""response_format":{"type":"json_object"}"#, "response_format"),
        (r#""modalities":["text","audio"]"#, "modalities"),
        (r#""logit_bias":{"5":1}"#, "logit_bias"),
        (r#""echo":true"#, "echo"),
        (r#""suffix":"x""#, "suffix"),
    ] {
        assert_eq!(param(with(fields)), named, "{fields}");
    }
    let tool = r#"{"model":"m","messages":[{"role":"tool","content":"x"}]}"#;
    assert_eq!(param(chat(tool)), "messages");
}

#[test]
fn values_out_of_range_are_refused_by_name() {
    for (fields, named) in [
        (r#""temperature":2.1"#, "temperature"),
        (r#""temperature":-0.1"#, "temperature"),
        (r#""top_p":1.5"#, "top_p"),
        (r#""presence_penalty":3"#, "presence_penalty"),
        (r#""max_tokens":0"#, "max_tokens"),
        (r#""max_tokens":1001"#, "max_tokens"),
        (r#""max_tokens":-1"#, "max_tokens"),
        (r#""max_completion_tokens":1001"#, "max_completion_tokens"),
        (r#""logprobs":true,"top_logprobs":21"#, "top_logprobs"),
        (r#""top_logprobs":2"#, "top_logprobs"),
        (r#""logprobs":3"#, "logprobs"),
        (r#""stop":["a",""]"#, "stop"),
        (r#""stop":["","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a"]"#, "stop"),
        (r#""stop":[1]"#, "stop[0]"),
        (r#""stream_options":{"include_usage":true}"#, "stream_options"),
        (r#""seed":"x""#, "seed"),
        (r#""temperature":"hot""#, "temperature"),
    ] {
        assert_eq!(param(with(fields)), named, "{fields}");
    }
}

#[test]
fn messages_that_are_none_are_refused_at_their_place() {
    for (messages, named) in [
        ("[]", "messages"),
        (r#"[{"role":"user"}]"#, "messages[0].content"),
        (r#"[{"role":"user","content":5}]"#, "messages[0].content"),
        (r#"[{"role":"user","content":"a"},{"role":"king","content":"b"}]"#, "messages[1].role"),
        (r#"[{"content":"a"}]"#, "messages[0].role"),
        (
            r#"[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]"#,
            "messages[0].content",
        ),
    ] {
        let refused = chat(&format!(r#"{{"model":"m","messages":{messages}}}"#));
        assert_eq!(param(refused), named, "{messages}");
    }
    assert_eq!(param(chat(r#"{"model":"m"}"#)), "messages");
    assert_eq!(param(chat(r#"{"model":"","messages":[]}"#)), "model");
}

#[test]
fn what_is_wrong_is_told_in_words_of_json() {
    let message = |refused: Problem| {
        let json: serde_json::Value = serde_json::from_slice(&refused.json()).unwrap();
        json["error"]["message"].as_str().unwrap().to_owned()
    };
    for (body, wanted) in [
        ("", "the body is empty; it must be a JSON object"),
        (" \"hi\"", "the body must be a JSON object, not a string"),
        ("[\"m\"]", "the body must be a JSON object, not an array"),
        ("null", "the body must be a JSON object, not null"),
        ("5", "the body must be a JSON object, not a number"),
        ("nonsense", "the body is not JSON: expected ident at line 1 column 2"),
        (r#"{"model":"m"} x"#, "the body is not JSON: trailing characters at line 1 column 15"),
        ("{}", "`model` is required"),
        (r#"{"model":5}"#, "`model` must be a string, not 5"),
        (r#"{"model":"m","model":"n"}"#, "`model` is there more than once"),
        (r#"{"model":"m","messages":{}}"#, "`messages` must be an array, not an object"),
        (r#"{"model":"m","messages":["hi"]}"#, "`messages[0]` must be a JSON object, not a string"),
        (r#"{"model":"m","messages":[[]]}"#, "`messages[0]` must be a JSON object, not an array"),
        (r#"{"model":"m","messages":[{}]}"#, "`messages[0].role` is required"),
        (
            r#"{"model":"m","messages":[{"role":"user","content":7}]}"#,
            "`messages[0].content` must be a string or a list of parts of type text, not 7",
        ),
        (
            r#"{"model":"m","messages":[{"role":"user","content":[{"type":"image_url"}]}]}"#,
            "`messages[0].content` must be a part of type text, not \"image_url\"",
        ),
    ] {
        assert_eq!(message(chat(body).unwrap_err()), wanted, "{body}");
    }
    for (fields, wanted) in [
        (r#""temperature":"hot, expected `u8`""#, "`temperature` must be a number, not a string"),
        (r#""stream":"yes""#, "`stream` must be true or false, not a string"),
        (r#""stop":{}"#, "`stop` must be a string or a list of strings, not an object"),
        (r#""n":-1"#, "`n` must be a whole number of 0 or more, not -1"),
        (r#""seed":1.5"#, "`seed` must be a whole number of 64 bits, not 1.5"),
        (r#""logprobs":"all""#, "`logprobs` must be true, false or a whole number"),
        (
            r#""max_tokens":5000000000"#,
            "`max_tokens` must be a whole number from 0 to 4294967295, not 5000000000",
        ),
    ] {
        assert_eq!(message(with(fields).unwrap_err()), wanted, "{fields}");
    }
}

#[test]
fn what_is_not_json_is_refused() {
    let deep = "[".repeat(10_000);
    for body in ["", "{", "nonsense", "[]", "5", "{}", deep.as_str(), r#"{"model":"m"} x"#] {
        assert!(chat(body).is_err(), "{body}");
    }
    assert!(read::<GenerateBody>(b"\xff\xfe").is_err());
    assert!(chat(r#"{"model":"m","model":"n","messages":[]}"#).is_err());
}

#[test]
fn a_prompt_is_one_text_or_its_tokens() {
    for (prompt, wanted) in [
        (r#""a""#, Prompt::Text("a".into())),
        (r#"["a"]"#, Prompt::Text("a".into())),
        ("[1,2]", Prompt::Tokens(vec![1, 2])),
        ("[[1,2]]", Prompt::Tokens(vec![1, 2])),
    ] {
        let (request, _) =
            complete(&format!(r#"{{"model":"m","prompt":{prompt},"logprobs":0}}"#)).unwrap();
        assert_eq!(request.prompt, wanted);
        assert_eq!(request.sampling.top_logprobs, Some(0));
    }
    for prompt in [r#"["a","b"]"#, "[[1],[2]]", r#""""#, "[]", "[[]]", r#"["a",1]"#, "[-1]"] {
        let refused = complete(&format!(r#"{{"model":"m","prompt":{prompt}}}"#));
        assert!(param(refused).starts_with("prompt"), "{prompt}");
    }
}

#[test]
fn vectors_are_wanted_of_texts_or_tokens() {
    let inputs = |input: &str| embed(&format!(r#"{{"model":"m","input":{input}}}"#));
    for (input, count) in [(r#""a""#, 1), (r#"["a","b"]"#, 2), ("[1,2]", 1), ("[[1],[2,3]]", 2)] {
        assert_eq!(inputs(input).unwrap().0.inputs.len(), count, "{input}");
    }
    let many = format!("[{}\"a\"]", "\"a\",".repeat(MAX_INPUTS));
    for input in ["[]", r#"[""]"#, "[[]]", "{}", "4294967296", many.as_str()] {
        assert_eq!(param(inputs(input)), "input", "{input}");
    }
    let encoded = |format: &str| {
        embed(&format!(r#"{{"model":"m","input":"a","encoding_format":"{format}"}}"#))
    };
    assert_eq!(encoded("base64").unwrap().1, Encoding::Base64);
    assert_eq!(param(encoded("hex")), "encoding_format");
    assert_eq!(param(embed(r#"{"model":"m","input":"a","dimensions":8}"#)), "dimensions");
}
