"""Turns a drawn pattern into a question as a person might type it: frames, context, case, punctuation, slips of the finger."""
import re

DOUBLED = {"stop", "run", "get", "set", "begin", "shut", "put", "cut", "quit", "drop", "plan", "tag", "ship", "dig", "swap", "log", "spin",
           "plug", "strip", "let", "cancel", "hit", "scan", "pin", "grab", "map", "trim", "skip", "wrap", "swim", "chop", "knit", "win", "nap", "jog", "hug", "sit", "rub", "pet", "label", "travel", "model"}


def gerund(phrase):
    verb, _, rest = phrase.partition(" ")
    if not re.fullmatch(r"[a-z]+", verb):
        return None
    if verb in DOUBLED:
        verb += verb[-1]
    elif verb.endswith("ie"):
        verb = verb[:-2] + "y"
    elif verb.endswith("e") and not verb.endswith(("ee", "ye", "oe")) and verb != "be":
        verb = verb[:-1]
    return f"{verb}ing {rest}".strip()


def frame_verb(grammar, phrase, rng, kind=None):
    text = grammar.draw(phrase, rng)
    if kind == "flags" and rng.random() < 0.3:
        return grammar.draw("$frame_flag", rng).replace("%", text)
    if rng.random() < 0.15:
        ing = gerund(text)
        if ing:
            return grammar.draw("$frame_gerund", rng).replace("%", ing)
    return grammar.draw("$frame_verb", rng).replace("%", text)


def frame_noun(grammar, phrase, rng):
    return grammar.draw("$frame_noun", rng).replace("%", grammar.draw(phrase, rng))


def frame_subject(grammar, phrase, rng):
    """What a flag is about, asked for as a flag."""
    return grammar.draw("$frame_subject", rng).replace("%", grammar.draw(phrase, rng, 0.8))


def frame_call(grammar, phrase, rng):
    """What a client wants of a route: without a word of HTTP it would be a question about a command."""
    return grammar.draw("$frame_call", rng).replace("%", grammar.draw(phrase, rng, 0.8))


CONTRACTIONS = [("what is", "what's"), ("how do i", "how do I"), ("i am", "i'm"), ("do not", "don't"), ("does not", "doesn't"), ("is not", "isn't"), ("can not", "can't"), ("cannot", "can't"),
                ("did not", "didn't"), ("it is", "it's"), ("that is", "that's"), ("i would", "i'd"), ("i have", "i've"), ("will not", "won't"), ("where is", "where's"), ("how is", "how's"), ("who is", "who's"), ("are not", "aren't")]
STOP_WORDS = {"and", "you", "your", "how", "what", "who", "with", "from", "the", "a", "an", "do", "does", "is", "are", "to", "of", "i", "my", "can", "please", "me", "that", "it", "for"}


def typo(text, rng):
    places = [m for m in re.finditer(r"[a-z]{4,}", text) if text[m.start() - 1:m.start()] not in ("-", "/", "`", "_")]
    if not places:
        return text
    match = places[int(rng.random() * len(places))]
    word, at = match.group(0), 1 + int(rng.random() * (len(match.group(0)) - 2))
    kind = rng.random()
    if kind < 0.35:
        word = word[:at] + word[at + 1:]
    elif kind < 0.65:
        word = word[:at] + word[at + 1] + word[at] + word[at + 2:]
    elif kind < 0.85:
        word = word[:at] + word[at] + word[at:]
    else:
        word = word[:at] + "abcdefghijklmnopqrstuvwxyz"[int(rng.random() * 26)] + word[at + 1:]
    return text[:match.start()] + word + text[match.end():]


def noise(grammar, text, rng):
    """Puts a word in that has nothing to do with it: a question about svc stays one in spite of unknown words."""
    words = text.split(" ")
    if len(words) < 3:
        return text
    at = 1 + int(rng.random() * (len(words) - 1))
    if words[at - 1] in ("svc", "code", "status", "with") or words[at].startswith("-"):
        return text
    return " ".join(words[:at] + [grammar.draw("$filler", rng)] + words[at:])


def loosen(text, rng):
    """Leaves words out or turns the order round: a question is known by its words before its grammar."""
    words = text.split(" ")
    if len(words) < 4:
        return text
    kind = rng.random()
    if kind < 0.6:
        for _ in range(1 + (kind < 0.2)):
            at = int(rng.random() * len(words))
            if re.fullmatch(r"[a-z]+", words[at]) and words[at - 1] != "svc":
                del words[at]
    else:
        at = 1 + int(rng.random() * (len(words) - 1))
        if words[at - 1] not in ("svc", "the", "a", "code") and not words[at].startswith("-"):
            words = words[at:] + words[:at]
    return " ".join(words)


def scatter(text, rng):
    """Leaves a word out here and there: a way to ask is known by more than one of its words."""
    if rng.random() > 0.2:
        return text
    words = text.split(" ")
    kept = [word for word in words if not re.fullmatch(r"[a-z]+", word) or rng.random() > 0.12]
    return " ".join(kept) if len(kept) > 2 else text


# Names and abbreviations as people write them who take care; the patterns have them in small letters.
PROPER = {word.lower(): word for word in (
    "gRPC HTTP HTTPS JSON API APIs URL URLs PID CI GPU CPU SSE OpenAI Ollama OpenAPI WebSocket WebSockets Prometheus Kubernetes Docker GGUF SQLite Linux Windows Mac macOS LLM LLMs AI CLI UI GUI GPT GPT-4 GPT-4o "
    "ChatGPT Claude Gemini Llama Qwen Mistral Gemma DeepSeek Groq Anthropic vLLM TCP SVG ASCII JavaScript Python Grafana GitHub SDK OS USB SSH Mermaid Azure OpenRouter Postgres CUDA MIT Siri Alexa "
    "German French Spanish English Chinese Italian Russian Japanese Google Microsoft Meta Facebook Amazon Apple iPhone Android Excel Java Rust Europe Germany France Spain Italy Japan China India America England "
    "Berlin London Paris Rome Madrid Vienna Tokyo Monday Tuesday Friday Sunday January June December Christmas Easter Netflix Spotify YouTube WhatsApp Instagram Twitter Minecraft Pokemon Messi Einstein Napoleon "
    "Shakespeare Bitcoin NASA CSS HTML SQL PDF WiFi Word Photoshop MySQL Redis Nginx Apache Node React Firefox Chrome TypeScript AWS REST Ctrl-C Ubuntu Debian iOS PHP Git DNS VPN XML YAML CSV").split()}
AS_WORDS = {"word", "rest", "apple", "meta", "node", "chrome", "react", "apache", "ascii", "mac", "os", "rust", "git"}
NAME = re.compile(r"(?<![\w/`.=-])(" + "|".join(sorted(map(re.escape, set(PROPER) - AS_WORDS), key=len, reverse=True)) + r")(?![\w/`=])")


def capitals(text, rng, about_svc):
    """Names take their capitals half of the time; what is foreign is full of other names, so any word may have one there."""
    if rng.random() < 0.5:
        text = NAME.sub(lambda match: PROPER[match.group(1)], text).replace("rest API", "REST API").replace("over rest", "over REST")
    if rng.random() < (0.03 if about_svc else 0.35):
        share = 0.2 + 0.6 * rng.random()
        text = re.sub(r"(?<![\w/`.=-])[a-z][a-z]{2,}(?![\w/`=])", lambda match: match.group(0).capitalize() if match.group(0) not in STOP_WORDS and rng.random() < share else match.group(0), text)
    return text


def style(grammar, text, rng, about_svc):
    if rng.random() < 0.08:
        text = loosen(text, rng)
    if about_svc and rng.random() < 0.10:
        text = noise(grammar, text, rng)
    if rng.random() < 0.10:
        text = grammar.draw("$before", rng) + " " + text
    if rng.random() < 0.06:
        text = grammar.draw("$greeting", rng) + " " + text
    if rng.random() < 0.10:
        text = text + " " + grammar.draw("$after", rng)
    if about_svc and rng.random() < 0.10:
        text = grammar.draw("$svc_before", rng) + " " + text if rng.random() < 0.3 else text + " " + grammar.draw("$svc_after", rng)
    if rng.random() < 0.5:
        for long, short in CONTRACTIONS:
            text = re.sub(rf"\b{long}\b", short, text)
    if rng.random() < 0.05:
        kept = [word for word in text.split() if word.lower() not in STOP_WORDS]
        text = " ".join(kept) if len(kept) > 1 else text
    if rng.random() < 0.10:
        text = typo(text, rng)
    if rng.random() < 0.4:
        text = re.sub(r"\bi\b", "I", text)
    text = capitals(text, rng, about_svc)
    case = rng.random()
    if case < 0.62:
        text = text[:1].upper() + text[1:]
    elif case < 0.635 and "--" not in text and "/" not in text:
        text = text.upper()
    end = rng.random()
    question = re.match(r"(?i)(how|what|why|when|where|who|which|is|are|can|could|does|do|did|should|will|would|any)\b", text)
    if text[-1:].isalnum() or text[-1:] in "`'\"":
        if question:
            text += "?" if end < 0.72 else "" if end < 0.96 else " ?" if end < 0.98 else "??"
        else:
            text += "" if end < 0.55 else "." if end < 0.75 else "?" if end < 0.92 else "!"
    return text
