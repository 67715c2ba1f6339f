import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Conversation } from './conversations.ts';

/** What llama-server makes of a request, with one template. */
export interface Server {
  tokens: { bos_token: string; eos_token: string };
  /** Throws Error with the words of the server. */
  prompt(conversation: Conversation): Promise<string>;
  close(): Promise<void>;
}

/** `model`: a file whose vocabulary the server needs. It computes nothing. */
export async function startServer(
  program: string,
  model: string,
  template: string,
): Promise<Server> {
  const options = ['-m', model, '--jinja', '--chat-template-file', template];
  const small = ['--port', '0', '-c', '256', '-t', '1', '--no-warmup'];
  const child = spawn(program, [...options, ...small], { stdio: ['ignore', 'ignore', 'pipe'] });
  const url = await addressOf(child);
  const props = (await (await fetch(`${url}/props`)).json()) as Server['tokens'];
  return {
    tokens: { bos_token: props.bos_token, eos_token: props.eos_token },
    prompt: async (conversation) => {
      const response = await fetch(`${url}/apply-template`, {
        method: 'POST',
        body: JSON.stringify(withTexts(conversation)),
      });
      const said = (await response.json()) as { prompt?: string; error?: { message: string } };
      if (said.prompt === undefined) throw new Error(said.error?.message);
      return said.prompt;
    },
    close: async () => {
      const gone = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGKILL');
      await gone;
    },
  };
}

function addressOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    const said: string[] = [];
    child.once('error', reject);
    child.once('exit', () => reject(new Error(said.slice(-5).join('\n'))));
    if (child.stderr === null) return;
    createInterface(child.stderr).on('line', (line) => {
      said.push(line);
      const address = /listening on (http:\S+)/.exec(line)?.[1];
      if (address !== undefined) resolve(address);
    });
  });
}

/** In the protocol, arguments are JSON as a text. */
function withTexts({ messages, ...rest }: Conversation): object {
  const told = messages.map(({ tool_calls, ...turn }) => ({
    ...turn,
    ...(tool_calls === undefined
      ? {}
      : {
          tool_calls: tool_calls.map(({ function: { name, arguments: values }, ...call }) => ({
            ...call,
            function: { name, arguments: JSON.stringify(values) },
          })),
        }),
  }));
  return { ...rest, messages: told };
}
