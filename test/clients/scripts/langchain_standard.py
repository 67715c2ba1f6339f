# Runs the standard tests of LangChain with pytest: each of its tests is a case.
import subprocess
import sys
import xml.etree.ElementTree as tree
from pathlib import Path

from cases import told

which = sys.argv[1]
HEAD = """
import os
from langchain_tests.integration_tests import ChatModelIntegrationTests, EmbeddingsIntegrationTests
URL, TOKEN = os.environ["SVC_URL"], os.environ["SVC_TOKEN"]
MODEL, EMBEDDING = os.environ["SVC_MODEL_ID"], os.environ["SVC_EMBEDDING_ID"]
"""
CHATS = {
    "openai": ("from langchain_openai import ChatOpenAI as Chat, OpenAIEmbeddings as Vectors", '{"model": MODEL, "base_url": URL + "/v1", "api_key": TOKEN, "stream_usage": True}', '{"model": EMBEDDING, "base_url": URL + "/v1", "api_key": TOKEN, "check_embedding_ctx_length": False}'),
    "anthropic": ("from langchain_anthropic import ChatAnthropic as Chat", '{"model": MODEL, "base_url": URL, "api_key": TOKEN, "max_tokens": 500}', None),
    "ollama": ("from langchain_ollama import ChatOllama as Chat, OllamaEmbeddings as Vectors", '{"model": MODEL, "base_url": URL, "client_kwargs": {"headers": {"Authorization": "Bearer " + TOKEN}}}', '{"model": EMBEDDING, "base_url": URL, "client_kwargs": {"headers": {"Authorization": "Bearer " + TOKEN}}}'),
}
imports, chat, vectors = CHATS[which]
source = f"""{HEAD}
{imports}
class TestChat(ChatModelIntegrationTests):
    chat_model_class = property(lambda self: Chat)
    chat_model_params = property(lambda self: {chat})
    has_tool_choice = property(lambda self: True)
"""
if vectors is not None:
    source += f"""
class TestVectors(EmbeddingsIntegrationTests):
    embeddings_class = property(lambda self: Vectors)
    embedding_model_params = property(lambda self: {vectors})
"""
Path("test_standard.py").write_text(source)
Path("pytest.ini").write_text("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = session\nasyncio_default_test_loop_scope = session\n")
subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=out.xml", "test_standard.py"], check=False)
for case in tree.parse("out.xml").iter("testcase"):
    bad = [each for each in case if each.tag in ("failure", "error")]
    if any(each.tag == "skipped" for each in case):
        continue
    told(case.get("name"), not bad, bad[0].get("message") if bad else "")
