"""A client of all APIs that shows what it got: status, headers, events. Standard library only."""

import dataclasses
import http.client
import json
import random
import urllib.parse

TIMEOUT_S = 300


@dataclasses.dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: dict

    @property
    def replica(self) -> str:
        return self.headers["x-lm-warden-replica"]

    @property
    def route(self) -> str:
        return self.headers["x-lm-warden-route"]


class Stream:
    """A reply that streams. `events` yields the data of each event; `close` leaves at once."""

    def __init__(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse):
        self._connection = connection
        self._response = response
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}

    def events(self):
        """Raises http.client.IncompleteRead where the stream breaks off."""
        rest = b""
        # Not readline(): it takes a connection that breaks between chunks for the end.
        while data := self._response.read1(1 << 16):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                text = line.decode().strip()
                if text.startswith("data: ") and text != "data: [DONE]":
                    yield json.loads(text.removeprefix("data: "))
        self.close()

    def close(self):
        # Both: the response holds a second reference to the socket.
        self._response.close()
        self._connection.close()


def _send(url: str, path: str, body: dict, headers: dict | None):
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=TIMEOUT_S)
    connection.request(
        "POST", path, json.dumps(body), {"content-type": "application/json", **(headers or {})}
    )
    return connection


def post(url: str, path: str, body: dict, headers: dict | None = None) -> Reply:
    connection = _send(url, path, body, headers)
    try:
        response = connection.getresponse()
        head = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, head, json.loads(response.read()))
    finally:
        connection.close()


def stream(url: str, path: str, body: dict, headers: dict | None = None) -> Stream:
    connection = _send(url, path, {**body, "stream": True}, headers)
    return Stream(connection, connection.getresponse())


def send(url: str, path: str, body: dict, headers: dict | None = None) -> http.client.HTTPConnection:
    """Sends a request without waiting for anything; closing the connection cancels it."""
    return _send(url, path, body, headers)


def words(count: int, seed: str) -> str:
    """Text that no other seed gives; the tiny tokenizer makes two to three tokens of a word."""
    draw = random.Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyz"
    return " ".join("".join(draw.choices(letters, k=5)) for _ in range(count))


# --- The APIs: a request for some text, and where its usage stands --------------------------------


@dataclasses.dataclass(frozen=True)
class Api:
    path: str

    def body(self, text: str, tokens: int, **more) -> dict:
        raise NotImplementedError

    def usage(self, message: dict) -> tuple[int, int, int] | None:
        """(prompt, cached, completion) tokens of a reply or of a stream's event that has them."""
        raise NotImplementedError


class Messages(Api):
    def body(self, text, tokens, **more):
        messages = [{"role": "user", "content": text}]
        return {"model": "tiny", "max_tokens": tokens, "messages": messages, **more}

    def usage(self, message):
        usage = message.get("usage")
        if not usage or message.get("type") not in ("message", "message_delta"):
            return None
        read = usage.get("cache_read_input_tokens") or 0
        created = usage.get("cache_creation_input_tokens") or 0
        return usage["input_tokens"] + read + created, read, usage["output_tokens"]


class OpenAi(Api):
    def usage(self, message):
        usage = message.get("usage")
        if not usage:
            return None
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        return usage["prompt_tokens"], cached, usage["completion_tokens"]


class Chat(OpenAi):
    def body(self, text, tokens, **more):
        messages = [{"role": "user", "content": text}]
        return {"model": "tiny", "max_tokens": tokens, "messages": messages, **more}


class Completions(OpenAi):
    def body(self, text, tokens, **more):
        return {"model": "tiny", "max_tokens": tokens, "prompt": text, **more}


class Responses(Api):
    def body(self, text, tokens, **more):
        return {"model": "tiny", "max_output_tokens": tokens, "input": text, **more}

    def usage(self, message):
        usage = (message.get("response") or message).get("usage")
        if not usage:
            return None
        cached = (usage.get("input_tokens_details") or {}).get("cached_tokens") or 0
        return usage["input_tokens"], cached, usage["output_tokens"]


MESSAGES = Messages("/v1/messages")
CHAT = Chat("/v1/chat/completions")
COMPLETIONS = Completions("/v1/completions")
RESPONSES = Responses("/v1/responses")
