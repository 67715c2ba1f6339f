import cohere
from cases import EMBEDDING, TOKEN, URL, attempt, expect

# Cohere's API is svc's for the ranking of documents alone. Its chat has Cohere's own form.
old = cohere.Client(TOKEN, base_url=URL)
new = cohere.ClientV2(TOKEN, base_url=URL)
asked = {"model": EMBEDDING, "query": "rain in Paris", "documents": ["sun in Rome", "rain in Paris", "snow"]}


def ranked(answer):
    return [(each.index, round(each.relevance_score, 2)) for each in answer.results]


for name, client in {"v1": old, "v2": new}.items():

    @attempt(f"{name}: rerank")
    def _():
        expect(ranked(client.rerank(**asked)), [(1, 1), (0, 0.33), (2, 0)])

    @attempt(f"{name}: the best one")
    def _():
        expect(ranked(client.rerank(**asked, top_n=1)), [(1, 1)])

    @attempt(f"{name}: an unknown model is a 404")
    def _():
        try:
            client.rerank(**{**asked, "model": "up/none"})
        except cohere.NotFoundError as error:
            return expect(error.status_code, 404)
        raise AssertionError("no error")


@attempt("v1: with the documents")
def _():
    expect([each.document.text for each in old.rerank(**asked, return_documents=True).results][0], "rain in Paris")


@attempt("v2: async")
async def _():
    client = cohere.AsyncClientV2(TOKEN, base_url=URL)
    expect(ranked(await client.rerank(**asked)), [(1, 1), (0, 0.33), (2, 0)])


@attempt("a wrong key is a 401")
def _():
    try:
        cohere.ClientV2("wrong", base_url=URL).rerank(**asked)
    except cohere.UnauthorizedError:
        return
    raise AssertionError("no error")
