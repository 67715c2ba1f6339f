import { Agent, request } from 'node:http';

export interface Answer {
  first_ms: number;
  whole_ms: number;
  /** Tokens that the server counted; 0 if it reports none. */
  tokens: number;
  text: string;
}

export interface Target {
  url: string;
  token: string | null;
  headers?: Readonly<Record<string, string>>;
}

export interface Question {
  model: string;
  prompt: string;
  /** The turns before it. */
  earlier?: readonly { role: 'user' | 'assistant'; content: string }[];
  max_tokens?: number;
}

/** Servers close a connection that idles for 5 s. Closed sooner here, it is never used too late. */
const IDLE_MS = 1_000;
const agent = new Agent({
  keepAlive: true,
  maxSockets: Number.POSITIVE_INFINITY,
  timeout: IDLE_MS,
});

/** Asks for a streamed chat completion over `node:http`. Rejects with any answer but 200. */
export function askChat(target: Target, question: Question): Promise<Answer> {
  const { prompt, earlier = [], ...rest } = question;
  const body = JSON.stringify({
    ...rest,
    stream: true,
    stream_options: { include_usage: true },
    temperature: 0,
    messages: [...earlier, { role: 'user', content: prompt }],
  });
  const headers = {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    ...(target.token === null ? {} : { authorization: `Bearer ${target.token}` }),
    ...target.headers,
  };
  return new Promise((resolve, reject) => {
    const began = performance.now();
    let [first_ms, received] = [0, ''];
    const sent = request(target.url, { method: 'POST', agent, headers }, (response) => {
      response.setEncoding('utf8').on('data', (piece: string) => {
        received += piece;
        if (first_ms === 0 && /"content":"[^"]/.test(received))
          first_ms = performance.now() - began;
      });
      response.on('error', reject).on('end', () => {
        const whole_ms = performance.now() - began;
        if (response.statusCode === 200) resolve({ first_ms, whole_ms, ...read(received) });
        else reject(new Error(`${target.url}: ${response.statusCode} ${received.slice(0, 300)}`));
      });
    });
    sent
      .on('error', (error) => {
        // A server closes a connection that was idle for a while, maybe as it is used again.
        if (sent.reusedSocket && first_ms === 0) askChat(target, question).then(resolve, reject);
        else reject(error);
      })
      .end(body);
  });
}

function read(received: string): { tokens: number; text: string } {
  let [tokens, text] = [0, ''];
  for (const line of received.split('\n')) {
    if (!line.startsWith('data: {')) continue;
    const { choices, usage } = JSON.parse(line.slice(6)) as {
      choices?: { delta?: { content?: string | null } }[];
      usage?: { completion_tokens?: number } | null;
    };
    text += choices?.[0]?.delta?.content ?? '';
    tokens = usage?.completion_tokens ?? tokens;
  }
  return { tokens, text };
}
