"""Makes the golden files beside this one with llama.cpp (the package `xllamacpp`).

    python make.py MODEL.gguf

`tokens.json`: texts and their token ids, for every way of cutting words that we know; the same
vocabulary is read with another name of the pre-tokenizer in a copy of the file.
`answers.json`: greedy answers with the log-probabilities of their first tokens, and the texts that
the chat template makes.
"""

import json
import pathlib
import shutil
import sys
import tempfile
import urllib.request

import xllamacpp

HERE = pathlib.Path(__file__).parent

# The first is the file's own; none may be longer.
FAMILIES = ["smollm", "gpt-2", "qwen2", "llama3"]

TEXTS = [
    "",
    "Hello, world!",
    "The capital of France is",
    "3.14159 and 2718281828, 1,000,000 or 0x7fff",
    "2024-01-31T23:59:59Z",
    "½ ² Ⅷ ٣٤٥ 一二三",
    "I'll say it's what they've done, we're sure he'd agree: I'M NOT",
    "DON'T you'LL they'Re",
    "fn main() {\n    println!(\"{}\", 42);\n}\n",
    "def f(x):\n\treturn x ** 2  # square\n\n\nprint(f(3))",
    "<html><body class=\"a\">&nbsp;</body></html>",
    "SELECT * FROM t WHERE a >= 10 AND b != 'x';",
    "Über die Brücke fährt ein grünes Gefährt; Straße, Äpfel, Öl.",
    "naïve café, résumé, Ångström, señor, çelik",
    "e\u0301 is not é, and n\u0303 is not ñ",
    "Привет, мир! Как дела?",
    "Γειά σου Κόσμε",
    "שלום עולם",
    "مرحبا بالعالم",
    "नमस्ते दुनिया",
    "你好，世界！今天天气很好。",
    "こんにちは世界。カタカナとひらがな",
    "안녕하세요 세계",
    "สวัสดีชาวโลก",
    "🦀🚀 emoji 👩‍👩‍👧‍👦 family 🇩🇪 flag 👍🏽 skin",
    "¯\\_(ツ)_/¯ (╯°□°)╯︵ ┻━┻",
    "∑ᵢ xᵢ² ≤ ∫₀^∞ e^{-t} dt ≈ 1 ± ε",
    " leading and trailing ",
    "  two    four        eight spaces",
    "tab\tand\t\ttabs\t",
    "one\ntwo\n\nthree\n\n\nfour\r\nfive\r\n\r\n",
    " \n \n  \t \n",
    "\u00a0no-break\u2003em\u200bzero\u3000ideographic",
    "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
    "text with <|endoftext|> inside and <|im_end|",
    "<|im_start|><|im_start|>",
    "<repo_name>x<file_sep>y<jupyter_start>",
    "a" * 200,
    "ab" * 50 + "!" * 50 + "-" * 33,
    "https://example.org/path?query=1&other=%20#fragment",
    "user@example.org, +49 (0)30 1234-5678",
    "CamelCase snake_case kebab-case SCREAMING_CASE x1y2z3",
    "\u0000\u0001\u007f control",
    "\ufeffbyte order mark and \ufffd",
    "zero\u200djoiner e\u0328\u0301 stacked",
]

CHATS = [
    [{"role": "user", "content": "What is the capital of France?"}],
    [{"role": "user", "content": "Write one sentence about the sea."}],
    [
        {"role": "system", "content": "You answer with one word."},
        {"role": "user", "content": "Which colour has the sky?"},
    ],
    [
        {"role": "user", "content": "My name is Ada."},
        {"role": "assistant", "content": "Hello Ada!"},
        {"role": "user", "content": "What is my name?"},
    ],
    [{"role": "user", "content": "Count from 1 to 10."}],
    [{"role": "user", "content": "Übersetze ins Englische: Guten Morgen, wie geht es dir?"}],
]

PROMPTS = ["The capital of France is", "def fibonacci(n):\n", "Once upon a time", "2 + 2 ="]


def serve(path, threads=1):
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx = 2048
    params.n_parallel = 1
    params.warmup = False
    params.verbosity = 0
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    params.port = 0
    return xllamacpp.Server(params)


def ask(server, path, body):
    request = urllib.request.Request(
        server.listening_address + path,
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def with_family(model, family, folder):
    """A copy of the file with another name of the pre-tokenizer.

    The header keeps its length, since tensors are found by it: what the name loses, the chat
    template gains as blanks at its end.
    """
    copy = folder / f"{family}.gguf"
    shutil.copy(model, copy)
    with open(copy, "r+b") as file:
        head = file.read(8 << 20)
        place, old = text_of(head, b"tokenizer.ggml.pre")
        name = family.encode()
        spare = old - len(name)
        assert spare >= 0, family
        new = head[:place] + len(name).to_bytes(8, "little") + name + head[place + 8 + old :]
        place, old = text_of(new, b"tokenizer.chat_template")
        end = place + 8 + old
        longer = (old + spare).to_bytes(8, "little") + new[place + 8 : end] + b" " * spare
        new = new[:place] + longer + new[end:]
        assert len(new) == len(head)
        file.seek(0)
        file.write(new)
    return copy


def text_of(head, key):
    """Where the text of a key starts with its length, and that length."""
    place = head.index(len(key).to_bytes(8, "little") + key) + 8 + len(key) + 4
    return place, int.from_bytes(head[place : place + 8], "little")


def tokens(model):
    families = {}
    with tempfile.TemporaryDirectory() as folder:
        for family in FAMILIES:
            server = serve(with_family(model, family, pathlib.Path(folder)))
            families[family] = [
                [
                    ask(
                        server,
                        "/tokenize",
                        {"content": text, "add_special": False, "parse_special": special},
                    )["tokens"]
                    for special in (False, True)
                ]
                for text in TEXTS
            ]
            del server
    return families


def answers(model):
    server = serve(model)
    found = []
    for chat in CHATS:
        text = ask(server, "/apply-template", {"messages": chat})["prompt"]
        found.append({"messages": chat, "prompt": text, **complete(server, text)})
    for text in PROMPTS:
        found.append({"messages": None, "prompt": text, **complete(server, text)})
    return found


def complete(server, text):
    answer = ask(
        server,
        "/completion",
        {
            "prompt": text,
            "n_predict": 24,
            "temperature": 0,
            "n_probs": 1,
            "return_tokens": True,
            "cache_prompt": False,
        },
    )
    chosen = answer["completion_probabilities"]
    return {
        "tokens": [token["id"] for token in chosen],
        "logprobs": [round(token["logprob"], 4) for token in chosen],
        "text": answer["content"],
    }


def write(name, content):
    about = {"made_by": f"xllamacpp {xllamacpp.__version__}, make.py", **content}
    (HERE / name).write_text(json.dumps(about, ensure_ascii=True, indent=1) + "\n")


def main():
    model = pathlib.Path(sys.argv[1])
    write("tokens.json", {"texts": TEXTS, "families": tokens(model)})
    write("answers.json", {"answers": answers(model)})


main()
