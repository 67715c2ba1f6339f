/**
 * Every command of `svc`, as data: the program, --help, the completion scripts, docs/cli.md and its test, and the
 * text the embedded model is trained on are all made from it.
 */

export interface FlagSpec {
  name: string;
  short?: string;
  /** How the value is shown, `<s>`; a flag without one is a switch. `[n]` marks a value that may be left out. */
  value?: string;
  summary: string;
}

export interface CommandSpec {
  name: string;
  /** As shown: `<id>` must be given, `[id]` may be. */
  args: string;
  summary: string;
  flags: readonly FlagSpec[];
  examples: readonly string[];
}

const json: FlagSpec = {
  name: 'json',
  summary: 'Print JSON, errors too; the exit code stays the same.',
};
const model: FlagSpec = {
  name: 'model',
  value: '<name>',
  summary: 'The model: provider/name, a name of the provider, or a path to a GGUF file.',
};
const serveFlags: FlagSpec[] = [
  {
    name: 'http',
    value: '<host:port>',
    summary: 'Address of the HTTP and WebSocket listener; port 0 is any free one.',
  },
  {
    name: 'grpc',
    value: '<host:port>',
    summary: 'Address of the gRPC listener; port 0 is any free one.',
  },
  {
    name: 'log-level',
    value: '<level>',
    summary: 'Lowest level that is logged: trace, debug, info, warn, error, fatal.',
  },
];

export const globalFlags: readonly FlagSpec[] = [
  json,
  { name: 'help', short: 'h', summary: 'Show what a command does and its flags.' },
];

const command = (
  name: string,
  args: string,
  summary: string,
  flags: readonly FlagSpec[] = [],
  ...examples: string[]
): CommandSpec => ({
  name,
  args,
  summary,
  flags: [...flags, json],
  examples,
});

export const commands: readonly CommandSpec[] = [
  command(
    'run',
    '[prompt]',
    'Answer a prompt: the answer goes to stdout as it is made. Starts the daemon if needed. Text piped to stdin is appended to the prompt; with - or no prompt only stdin is read. Other users of this machine can see a prompt on the command line, and not one on stdin.',
    [
      { name: 'provider', short: 'p', value: '<id>', summary: 'Ask this provider.' },
      { name: 'cloud', summary: 'Ask the default cloud provider: the prompt leaves this machine.' },
      { ...model, short: 'm' },
      { name: 'system', value: '<text>', summary: 'System text, put before the prompt.' },
      { name: 'max-tokens', value: '<n>', summary: 'Longest answer, in tokens.' },
      {
        name: 'temperature',
        value: '<t>',
        summary: 'Sampling temperature from 0 to 2; 0 always takes the likeliest token.',
      },
      {
        name: 'seed',
        value: '<n>',
        summary: 'Seed of the sampling: the same seed gives the same answer on the same machine.',
      },
      { name: 'timeout', value: '<s>', summary: 'Longest time for the whole run, in seconds.' },
      {
        name: 'recovery',
        value: '<policy>',
        summary:
          'What becomes of the run when it is cut off by a crash or a stop: resume, restart or end (default: resume).',
      },
      {
        name: 'idempotency-key',
        value: '<key>',
        summary: 'The same key and request give the same run, never a second one.',
      },
      {
        name: 'client',
        value: '<name>',
        summary: 'Whose turn it is in the queue: each client is served in turn.',
      },
      { name: 'cancel-on-disconnect', summary: 'Cancel the run also when this command is killed.' },
      { name: 'no-stream', summary: 'Print the answer when it is complete.' },
      { name: 'no-start', summary: 'Do not start the daemon; fail when it is not running.' },
      { name: 'detach', summary: 'Print the id of the run and return at once.' },
    ],
    'run "What is svc?"',
    'run "Summarise this" < notes.txt',
    'run "Hello" --provider ollama --model llama3.2',
  ),
  command(
    'start',
    '',
    'Start the daemon in the background; returns when it is ready.',
    [
      ...serveFlags,
      {
        name: 'wait',
        value: '<s>',
        summary: 'Longest wait for it to be ready, in seconds (default 30).',
      },
    ],
    'start',
    'start --http 127.0.0.1:0',
  ),
  command(
    'serve',
    '',
    'Run the daemon in the foreground, its log on stdout. Ctrl-C drains and stops it; a second Ctrl-C stops at once.',
    serveFlags,
    'serve',
  ),
  command(
    'stop',
    '',
    'Let active runs end, then stop the daemon; returns when the process is gone.',
    [
      {
        name: 'timeout',
        value: '<s>',
        summary:
          'Longest wait for active runs, in seconds (default 30); what is left is handed over to the next start.',
      },
      { name: 'force', summary: 'Do not wait for active runs.' },
    ],
    'stop',
    'stop --timeout 5',
  ),
  command(
    'restart',
    '',
    'Stop the daemon as `stop` does, then start it.',
    [
      ...serveFlags,
      {
        name: 'timeout',
        value: '<s>',
        summary: 'Longest wait for active runs, in seconds (default 30).',
      },
      { name: 'force', summary: 'Do not wait for active runs.' },
      {
        name: 'wait',
        value: '<s>',
        summary: 'Longest wait for it to be ready, in seconds (default 30).',
      },
    ],
    'restart',
  ),
  command(
    'status',
    '',
    'State of the daemon, since when, where it listens, its runs. Exit 0 running, 1 died without a clean stop, 3 stopped, 4 does not answer.',
    [
      { name: 'why', summary: 'The events that led here.' },
      { name: 'at', value: '<seq>', summary: 'As it was after this event of the log.' },
    ],
    'status',
    'status --why',
  ),
  command(
    'health',
    '',
    'Ask the daemon whether it is live and ready. Exit 0 serving, 4 not serving, 3 unreachable.',
    [
      {
        name: 'source',
        value: '<http|grpc|socket>',
        summary: 'Transport to ask over (default http).',
      },
      { name: 'watch', summary: 'Print each change until interrupted.' },
    ],
    'health --source grpc',
  ),
  command(
    'logs',
    '',
    'The last log lines: from the daemon when it runs, from its files when it does not.',
    [
      {
        name: 'tail',
        short: 'n',
        value: '[n]',
        summary: 'Number of lines (default 100). Without a number it follows too.',
      },
      { name: 'follow', short: 'f', summary: 'Go on with new lines as they come.' },
      { name: 'level', value: '<level>', summary: 'Lines of this level and above.' },
      { name: 'run', value: '<id>', summary: 'Lines of this run.' },
      {
        name: 'since',
        value: '<time>',
        summary: 'Lines since then: an RFC 3339 time, or an age such as 10m, 2h, 1d.',
      },
    ],
    'logs --tail 100',
    'logs -f --level warn',
  ),
  command(
    'doctor',
    '',
    'Check the installation and the daemon, also a dead one: what is wrong and what to do about it. Not zero if a check fails.',
    [],
    'doctor',
  ),
  command(
    'version',
    '',
    'Version of the program, and of the running daemon where it differs.',
    [],
    'version',
  ),
  command('model list', '', 'Models of every reachable provider.', [], 'model list --json'),
  command(
    'model show',
    '<id>',
    'One model, with what its file says of itself.',
    [],
    'model show local/svc-mini',
  ),
  command(
    'model pull',
    '<ref>',
    'Fetch a GGUF model into the models folder and verify it; run again after a break it goes on where it stopped. hf:user/repo takes Q4_K_M, else the smallest; hf:user/repo:Q8_0, hf:user/repo/file.gguf or an https address name the file.',
    [
      { name: 'name', value: '<name>', summary: 'Name of the model (default: that of the file).' },
      {
        name: 'sha256',
        value: '<hex>',
        summary: 'What the file must hash to, where the other side does not say.',
      },
    ],
    'model pull hf:user/repo:Q4_K_M',
    'model pull https://example.org/tiny.gguf --name tiny',
  ),
  command(
    'model remove',
    '<id>',
    'Delete a model from the models folder.',
    [],
    'model remove local/tiny',
  ),
  command('provider list', '', 'Providers, their state and why.', [], 'provider list --json'),
  command(
    'provider add',
    '<id>',
    'Configure a provider; takes effect at once.',
    [
      {
        name: 'base-url',
        value: '<url>',
        summary: 'Where it is, such as http://127.0.0.1:11434/v1.',
      },
      {
        name: 'adapter',
        value: '<name>',
        summary: 'How it is spoken to (default openai-compatible).',
      },
      { ...model, value: '<default>', summary: 'Model used when a run names none.' },
      {
        name: 'key-env',
        value: '<NAME>',
        summary: 'Environment variable that holds its key; the key is never stored.',
      },
      {
        name: 'kind',
        value: '<local|cloud>',
        summary: 'Whether prompts leave this machine (default: by its address).',
      },
    ],
    'provider add ollama --base-url http://127.0.0.1:11434/v1 --model llama3.2',
    'provider add openai --base-url https://api.openai.com/v1 --key-env OPENAI_API_KEY --model gpt-4o-mini',
  ),
  command(
    'provider remove',
    '<id>',
    'Remove a provider from the configuration.',
    [],
    'provider remove ollama',
  ),
  command(
    'provider test',
    '<id>',
    'Ask a provider now whether it is there and accepts us. Spends no token.',
    [],
    'provider test ollama',
  ),
  command(
    'runs list',
    '',
    'The latest runs, newest first.',
    [
      { name: 'limit', value: '<n>', summary: 'Number of runs (default 20).' },
      { name: 'state', value: '<state>', summary: 'Runs in this state.' },
      { name: 'provider', value: '<id>', summary: 'Runs of this provider.' },
    ],
    'runs list --state failed',
  ),
  command(
    'runs show',
    '<id>',
    'One run: its prompt, its answer, how it ended.',
    [],
    'runs show run_01J…',
  ),
  command(
    'runs attach',
    '<id>',
    'Follow the answer of a run from its beginning to its end, also across a restart of the daemon. Ctrl-C leaves the run alone.',
    [{ name: 'from', value: '<seq>', summary: 'Only from this event of the log on.' }],
    'runs attach run_01J…',
  ),
  command(
    'runs cancel',
    '<id>',
    'Cancel a run; returns when its work has stopped.',
    [],
    'runs cancel run_01J…',
  ),
  command(
    'runs why',
    '<id>',
    'How a run came to be where it is, event by event; works without a daemon too.',
    [],
    'runs why run_01J…',
  ),
  command(
    'runs replay',
    '<id|file>',
    'Fold a run again, from the log or from a file that `runs export` wrote, on any machine: the state it had, and how it came there.',
    [{ name: 'at', value: '<seq>', summary: 'As it was after this event of the log.' }],
    'runs replay run_01J… --at 120',
    'runs replay run.json',
  ),
  command(
    'runs export',
    '[id]',
    'Write a run as a file that can be replayed, or with --all the whole log as JSON lines, also from a log that is damaged. To stdout unless --output is given.',
    [
      {
        name: 'all',
        summary:
          'The whole log, one event a line; what cannot be read is told, and the exit code is then 1.',
      },
      {
        name: 'output',
        short: 'o',
        value: '<file>',
        summary: 'The file to write; one that is there is not overwritten.',
      },
      {
        name: 'redact',
        summary: 'Without prompts, answers, messages and names: their lengths stand for them.',
      },
    ],
    'runs export run_01J… --output run.json --redact',
    'runs export --all --output log.jsonl',
  ),
  command(
    'machines',
    '[name]',
    'The state machines that the daemon is made of: daemon, run, provider, engine, pull. Needs no daemon but for --live.',
    [
      { name: 'format', value: '<format>', summary: 'mermaid (default), svg, json or ascii.' },
      { name: 'live', summary: 'Mark the present states of the daemon that runs.' },
    ],
    'machines run --format ascii',
    'machines daemon --live',
  ),
  command(
    'console',
    '',
    'Open the console in the browser, signed in: the machines at work, runs, logs, and the past.',
    [
      {
        name: 'no-open',
        summary: 'Print its address; it is good for one sign-in, within a minute.',
      },
    ],
    'console',
  ),
  command(
    'config show',
    '',
    'The configuration in force, and where each value comes from.',
    [],
    'config show',
  ),
  command(
    'token',
    '[rotate]',
    'Print the token for HTTP and WebSocket clients; with rotate make a new one first: what the old one let in ends, and every browser is signed out.',
    [],
    'token',
    'token rotate',
  ),
  command(
    'api',
    '<method> <path>',
    'Ask a route of the HTTP interface over the local socket, with no token and no port; the answer goes to stdout as it comes.',
    [
      {
        name: 'data',
        short: 'd',
        value: '<json|@file|->',
        summary: 'Body of the request: the JSON itself, a file, or - for stdin.',
      },
      { name: 'stream', summary: 'Ask for events as they come (Accept: text/event-stream).' },
    ],
    'api GET /v1/runs',
    `api POST /v1/runs --data '{"prompt":"What is a run?"}' --stream`,
  ),
  command(
    'completion',
    '<shell>',
    'Print the completion script for bash, zsh or fish.',
    [],
    'completion bash',
  ),
];
