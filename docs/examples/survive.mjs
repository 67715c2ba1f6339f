// Asks with an idempotency key. When the daemon dies meanwhile, the same request gets the same run.
const url = process.env.SVC_URL ?? 'http://127.0.0.1:4780';
const key = `example-${crypto.randomUUID()}`;

async function ask() {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${process.env.SVC_TOKEN}`,
      'content-type': 'application/json',
      'idempotency-key': key,
    },
    body: JSON.stringify({
      model: 'local/svc-mini',
      messages: [{ role: 'user', content: 'What is a run?' }],
    }),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error.message);
  return answer;
}

/** Asks again while the daemon starts: the key makes that safe. */
async function askUntilAnswered(tries = 60) {
  try {
    return await ask();
  } catch (error) {
    if (tries === 0) throw error;
    await new Promise((resolve) => setTimeout(resolve, 1000));
    return askUntilAnswered(tries - 1);
  }
}

const { id, choices } = await askUntilAnswered();
const again = await ask();
console.log(choices[0].message.content);
console.log(again.id === id ? 'The second request got the same run.' : 'There are two runs.');
