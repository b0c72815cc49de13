"""Checks that OpenAI's own Python package works with the server, unchanged.

Arguments: base URL, key, name of the model. The engine behind the server repeats what it is told,
word by word, so every answer is known.
"""

import sys

import openai

url, key, model = sys.argv[1:]
client = openai.OpenAI(base_url=url, api_key=key, max_retries=0, timeout=60)


def say(text, **wishes):
    messages = wishes.pop("messages", [{"role": "user", "content": text}])
    return client.chat.completions.create(model=model, messages=messages, **wishes)


def refused(kind, code, param, **wishes):
    """The request must fail with this exception, code and parameter."""
    try:
        say("hi", **wishes)
    except kind as error:
        assert error.code == code, (error.code, error)
        assert error.param == param, (error.param, error)
        assert error.request_id.startswith("req-"), error.request_id
        return error
    raise AssertionError(f"{wishes} was not refused")


def chats():
    answer = say("hello big world")
    choice = answer.choices[0]
    assert answer.object == "chat.completion" and answer.model == model
    assert answer.id.startswith("chatcmpl-") and answer.created > 1_700_000_000
    assert choice.message.role == "assistant" and choice.message.content == "hello big world"
    assert choice.finish_reason == "stop" and choice.logprobs is None
    usage = answer.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (3, 3, 6)
    assert say("a b c", max_tokens=2).choices[0].finish_reason == "length"
    assert say("a b c", max_completion_tokens=2).choices[0].message.content == "a b "
    assert say("a b c", stop="b").choices[0].message.content == "a "
    assert say("a b c", stop=["x", " c"]).choices[0].message.content == "a b"
    assert say("a", seed=7).choices[0].message.content == "a 7"
    assert say("a", temperature=0.7, top_p=0.9, n=1, user="me").choices[0].message.content == "a"
    assert say("a", response_format={"type": "text"}).choices[0].message.content == "a"
    messages = [
        {"role": "system", "content": "brief"},
        {"role": "user", "content": "gone"},
        {"role": "assistant", "content": "gone too"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    ]
    assert say("", messages=messages).choices[0].message.content == "a\nb"
    messages = [{"role": "developer", "content": "brief"}, {"role": "user", "content": "a"}]
    assert say("", messages=messages).choices[0].message.content == "[brief] a"


def probabilities():
    token = say("hi", logprobs=True, top_logprobs=2).choices[0].logprobs.content[0]
    assert (token.token, token.logprob, token.bytes) == ("hi", -0.5, [104, 105])
    assert [other.token for other in token.top_logprobs] == ["other0", "other1"]
    events = list(say("a b", logprobs=True, stream=True))
    tokens = [
        token.token
        for event in events
        if event.choices[0].logprobs
        for token in event.choices[0].logprobs.content
    ]
    assert tokens == ["a ", "b"], tokens


def streams():
    events = list(say("a b c", stream=True))
    assert events[0].choices[0].delta.role == "assistant"
    assert "".join(event.choices[0].delta.content or "" for event in events) == "a b c"
    assert events[-1].choices[0].finish_reason == "stop"
    assert all(event.usage is None for event in events)
    events = list(say("a b c", stream=True, stream_options={"include_usage": True}))
    assert events[-1].choices == [] and events[-1].usage.total_tokens == 6
    assert {event.object for event in events} == {"chat.completion.chunk"}
    with client.chat.completions.stream(
        model=model, messages=[{"role": "user", "content": "a b"}]
    ) as stream:
        assert stream.get_final_completion().choices[0].message.content == "a b"
    try:
        list(say("break", stream=True))
    except openai.APIError as error:
        assert error.code == "engine_failed", error
    else:
        raise AssertionError("a fault in the middle of a stream was not seen")


def completions():
    answer = client.completions.create(model=model, prompt="a b c", max_tokens=2, logprobs=1)
    choice = answer.choices[0]
    assert answer.object == "text_completion" and choice.text == "a b "
    assert choice.finish_reason == "length" and choice.logprobs.tokens == ["a ", "b "]
    events = client.completions.create(model=model, prompt="a b", stream=True)
    assert "".join(event.choices[0].text for event in events) == "a b"
    tokens = client.completions.create(model=model, prompt=[1, 2])
    assert tokens.choices[0].text == "[1, 2]"


def vectors():
    # The package itself asks for base64 here and decodes it.
    wanted = [[2.0, 0.5, -1.25], [1.0, 0.5, -1.25]]
    answer = client.embeddings.create(model=model, input=["ab", "c"])
    assert [data.embedding for data in answer.data] == wanted, answer
    assert answer.usage.prompt_tokens == 3
    answer = client.embeddings.create(model=model, input=["ab", "c"], encoding_format="float")
    assert [data.embedding for data in answer.data] == wanted, answer
    assert len(client.embeddings.create(model=model, input="ab").data) == 1
    assert len(client.embeddings.create(model=model, input=[1, 2, 3]).data) == 1
    assert len(client.embeddings.create(model=model, input=[[1], [2, 3]]).data) == 2
    try:
        client.embeddings.create(model=model, input="a", dimensions=2)
    except openai.BadRequestError as error:
        assert error.param == "dimensions", error
    else:
        raise AssertionError("dimensions were not refused")


def models():
    assert [card.id for card in client.models.list()] == [model]
    assert client.models.retrieve(model).owned_by == "tests"


def refusals():
    bad = openai.BadRequestError
    json = {"type": "json_object"}
    refused(bad, "unsupported_parameter", "response_format", response_format=json)
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    refused(bad, "unsupported_parameter", "tools", tools=[tool])
    refused(bad, "unsupported_parameter", "n", n=2)
    refused(bad, None, "temperature", temperature=3)
    refused(bad, None, "messages", messages=[])
    refused(bad, None, "messages[0].content", messages=[{"role": "user", "content": 5}])
    long = [{"role": "user", "content": "long"}]
    refused(bad, "context_length_exceeded", "messages", messages=long)
    unable = [{"role": "user", "content": "unable"}]
    refused(openai.UnprocessableEntityError, "unsupported", None, messages=unable)
    broken = [{"role": "user", "content": "broken"}]
    refused(openai.InternalServerError, "engine_failed", None, messages=broken)
    try:
        client.chat.completions.create(model="other", messages=long)
    except openai.NotFoundError as error:
        assert error.code == "model_not_found", error
    else:
        raise AssertionError("a model that is not there was found")
    stranger = openai.OpenAI(base_url=url, api_key="sk-wrong", max_retries=0)
    try:
        stranger.models.list()
    except openai.AuthenticationError as error:
        assert error.code == "invalid_api_key", error
    else:
        raise AssertionError("a wrong key opened the door")


def leaving():
    """One request runs and none may wait: the second is turned away until the first is left."""
    stream = say("hang", stream=True)
    next(iter(stream))
    error = refused(openai.RateLimitError, "rate_limit_exceeded", None)
    assert error.response.headers["retry-after"] == "2"
    stream.close()


for check in (chats, probabilities, streams, completions, vectors, models, refusals, leaving):
    check()
    print(check.__name__, "ok")
print("all checks passed")
