import { optionRows, options } from '../../contract/options.ts';
import { POLICY_WORDS, runFilters } from '../../contract/words.ts';

/**
 * Every command of `svc`, as data. The parser, the help, the completion scripts and the docs are
 * made from this table. The training text of the built-in model is too.
 */

export interface FlagSpec {
  name: string;
  short?: string;
  /** The value as shown, `<s>`; a flag without one is a switch. `[n]` marks an optional value. */
  value?: string;
  summary: string;
  /** The flag may be repeated. */
  many?: true;
}

export interface CommandSpec {
  name: string;
  /** Its code in `src/cli/`, without `.ts`. By default `runs list` is in `runs/list`. */
  file: string;
  /** As shown: `<id>` is required, `[id]` is optional. */
  args: string;
  summary: string;
  flags: readonly FlagSpec[];
  examples: readonly string[];
  /**
   * The command only asks the daemon and prints, so its start takes most of its time. It is
   * built as one file: see
   * docs/decisions/0014-the-program-is-bundled.md.
   */
  isQuick?: true;
  /** The help lists it first. */
  isEveryday?: true;
  /** Words of other programs that mean the same. `isReversed`: with the arguments in reverse. */
  alias?: { words: readonly string[]; isReversed?: true };
}

/** A flag in the form of the help: its name, then its value if it has one. */
function flag(form: string, summary: string, own: Pick<FlagSpec, 'short' | 'many'> = {}): FlagSpec {
  const [name = '', ...value] = form.split(' ');
  return { name, ...own, ...(value.length === 0 ? {} : { value: value.join(' ') }), summary };
}

const json = flag('json', 'Print JSON, errors too. The exit code stays the same.');

const help = flag('help', 'Show what a command does, and its flags.', { short: 'h' });

export const globalFlags: readonly FlagSpec[] = [json, help];

/** Flags that the program passes to itself; help and completion do not show them. */
const hiddenFlags: Readonly<Record<string, readonly FlagSpec[]>> = {
  serve: [
    flag('background', 'Started by svc start.'),
    flag('replace', 'Stop the daemon that runs first.'),
  ],
  start: [flag('replace', 'The new daemon stops the one that runs, itself.')],
  upgrade: [flag('fold', 'Print the states that a log on stdin leads to.')],
  completion: [flag('list <kind>', 'Names that a script offers.')],
};

/** The flags of a command for help and completion. */
export function shownFlags({ flags }: CommandSpec): readonly FlagSpec[] {
  return [...flags, help];
}

/** Every flag that a command accepts. */
export function flagsOf(spec: CommandSpec): readonly FlagSpec[] {
  return [...shownFlags(spec), ...(hiddenFlags[spec.name] ?? [])];
}

const model = flag(
  'model <name>',
  "The model: provider/name, one of the provider's names, or a path to a GGUF file.",
  { short: 'm' },
);
const keepRuns = flag('keep-runs', 'Let the runs of the token continue.');

const force = flag('force', 'Do not wait for active runs.');
const drain = time('timeout', 'Longest wait for active runs (default 30)');
const wait = time('wait', 'Longest wait until the daemon is ready (default 30)');
const listeners: FlagSpec[] = [
  flag(
    'http <host:port>',
    'Address of the HTTP and WebSocket listener. Port 0 chooses a free port.',
  ),
  flag('grpc <host:port>', 'Address of the gRPC listener. Port 0 chooses a free port.'),
  flag('log-level <level>', 'Lowest level to log: trace, debug, info, warn, error, fatal.'),
];

const providerFlags: FlagSpec[] = [
  flag('base-url <url>', 'Base URL of the API, such as http://127.0.0.1:11434/v1.'),
  flag('like <known>', 'Known provider whose settings count, such as openai (default: the id).'),
  flag('adapter <name>', 'Protocol of the API (default openai-compatible).'),
  { ...model, value: '<default>', summary: 'Model for runs that name none.' },
  flag('key <place>', 'Where the API key is: env:NAME, file:/path, or none.'),
  flag('key-env <NAME>', 'The same as --key env:NAME.'),
  flag('kind <local|cloud>', 'Whether prompts leave this machine (default: by its address).'),
  flag('options <name=text,…>', 'Options of the adapter, such as region=us-east-1 of bedrock.'),
  flag('header <name: text>', 'Header of every request. Not for keys: see --key.', { many: true }),
  flag('max-runs <n>', 'Runs that it answers at one time.'),
];

const preset = flag(
  'preset <name>',
  'Ask with the settings of svc preset add that have this name. Flags go before them.',
  { short: 't' },
);

const schema = flag(
  'schema <json|file>',
  'The answer is JSON that this JSON schema allows: the schema itself, or a file.',
);

const stats = flag(
  'stats',
  'Then print how long it took, and how many tokens it had. With --json: in `stats`.',
);

const mcpFlags: FlagSpec[] = [
  flag('url <url>', 'Its address, if it is reached over HTTP.'),
  flag('folder <folder>', 'svc itself reads and writes files of this folder: svc:files.', {
    many: true,
  }),
  flag('host <host>', 'svc itself gets pages of this host: svc:http.', { many: true }),
  flag('env <name>', 'Pass on this variable of the daemon; with NAME=value, this value.', {
    many: true,
  }),
  flag('header <header>', 'Send this header, as in "Name: value".', { many: true }),
  flag(
    'client-id <id>',
    'For svc mcp login: the id that you registered, or the https address of a document about svc.',
  ),
  flag('cwd <folder>', 'Its working folder. By default it has its own.'),
  flag('trusted', 'Trust the descriptions that its tools give of themselves.'),
  flag('policy <policy>', `The decision about calls without a rule: ${POLICY_WORDS}.`),
];

/** Who answers. */
const targetFlags: FlagSpec[] = [
  flag('provider <id>', 'Ask this provider.', { short: 'p' }),
  flag('cloud', 'Ask the default cloud provider: the prompt leaves this machine.'),
  {
    ...model,
    short: 'm',
    many: true,
    summary:
      `${model.summary} Given again, it names the model to use when the previous one ` +
      'cannot answer.',
  },
];

const conversationFlags: FlagSpec[] = [
  flag('continue', 'Continue the last conversation of this folder.', { short: 'c' }),
  flag('conversation <id>', 'Continue the conversation of this run.'),
];

const tools = flag(
  'tools <server,…>',
  'Let the model call tools of these servers of svc mcp list, or one: server/tool.',
);

/** Flags for the form of the answer. Commands that call a model share them. */
const answerFlags: FlagSpec[] = [
  flag('system <text>', 'System prompt.'),
  {
    name: 'file',
    value: '<path>',
    many: true,
    summary:
      'Add a file to the prompt: text in UTF-8, an image, or sound. Many models take text alone.',
  },
  flag('format <text|json>', 'Form of the answer: text (default), or one JSON object.'),
  schema,
  ...optionFlags(),
];

/** The form of one answer. A conversation has none. */
const FORM_FLAGS: ReadonlySet<string> = new Set(['format', 'schema', 'regex', 'choice', 'grammar']);

/** The flags of the options of a request. */
function optionFlags(): FlagSpec[] {
  return optionRows.flatMap(([, { flag, many, summary }]) =>
    flag === undefined
      ? []
      : [{ name: flag[0], value: flag[1], ...(many ? { many } : {}), summary }],
  );
}

/** A time, as `secondsFlag` reads it. */
function time(name: string, summary: string): FlagSpec {
  return flag(`${name} <time>`, `${summary}: seconds, or a time such as 90s, 10m or 2h.`);
}

/** Folders of commands that keep svc itself: see `test/packages.ts`. */
const UPKEEP: ReadonlySet<string> = new Set([
  'config',
  'daemon',
  'doctor',
  'engine',
  'health',
  'logs',
  'machines',
  'service',
  'token',
  'transfer',
  'uninstall',
  'upgrade',
]);

function command(
  name: string,
  {
    args = '',
    flags = [],
    ...spec
  }: Partial<CommandSpec> & Pick<CommandSpec, 'summary' | 'examples'>,
): CommandSpec {
  const { file = name.includes(' ') ? name.replace(' ', '/') : `${name}/${name}`, ...rest } = spec;
  const isUpkeep = UPKEEP.has(file.split('/', 1)[0] ?? '');
  return { ...rest, file: isUpkeep ? `upkeep/${file}` : file, name, args, flags: [...flags, json] };
}

export const commands: readonly CommandSpec[] = [
  command('run', {
    isQuick: true,
    isEveryday: true,
    args: '[prompt…]',
    summary:
      'Answer a prompt. The answer is streamed to stdout. Starts the daemon if needed. ' +
      'Several words are one prompt. Text piped to stdin is appended to the prompt; ' +
      'with - or no prompt only stdin is read. Other users of this machine can see a prompt ' +
      'on the command line, but not one on stdin.',
    flags: [
      ...targetFlags,
      preset,
      ...answerFlags,
      flag('raw', options.raw.summary),
      tools,
      time('timeout', 'Longest time for the whole run'),
      {
        name: 'recovery',
        value: '<policy>',
        summary:
          'What happens to the run after a crash or a stop: ' +
          'resume, restart or end (default: resume).',
      },
      flag('idempotency-key <key>', 'The same key and request always give the same run.'),
      ...conversationFlags,
      flag('client <name>', 'Client name for fair queueing.'),
      flag('cancel-on-disconnect', 'Cancel the run if this command is killed.'),
      flag('no-stream', 'Print the answer when it is complete.'),
      stats,
      flag('no-start', 'Fail if the daemon is not running.'),
      flag('detach', 'Print the id of the run and return at once.'),
    ],
    examples: [
      'run "What is svc?"',
      'run "Summarise this" < notes.txt',
      'run "What differs?" --file old.txt --file new.txt',
      'run --preset commit-message < changes.diff',
      'run "Hello" --provider ollama --model llama3.2',
    ],
  }),
  command('chat', {
    isEveryday: true,
    summary:
      'Type messages and read the answers, which continue each other. ' +
      'From a pipe each line is a message. svc run without a prompt does the same at a ' +
      'terminal. /help lists what a chat can do.',
    flags: [
      ...targetFlags,
      preset,
      ...answerFlags.filter(({ name }) => !FORM_FLAGS.has(name)),
      tools,
      time('timeout', 'Longest time for each answer'),
      ...conversationFlags,
      stats,
      flag('no-start', 'Fail if the daemon is not running.'),
    ],
    examples: ['chat', 'chat --model llama3.2 --system "Answer briefly."', 'chat -c'],
  }),
  command('start', {
    file: 'daemon/start',
    isEveryday: true,
    summary: 'Start the daemon in the background; returns when it is ready.',
    flags: [...listeners, wait],
    examples: ['start', 'start --http 127.0.0.1:0'],
  }),
  command('serve', {
    file: 'daemon/serve',
    summary:
      'Run the daemon in the foreground and log to stdout. Ctrl-C drains and stops it; ' +
      'a second Ctrl-C stops it at once.',
    flags: listeners,
    examples: ['serve'],
  }),
  command('stop', {
    file: 'daemon/stop',
    isEveryday: true,
    isQuick: true,
    summary: 'Let active runs end, then stop the daemon; returns when the process is gone.',
    flags: [
      { ...drain, summary: `${drain.summary} The next start continues what is left.` },
      force,
    ],
    examples: ['stop', 'stop --timeout 5'],
  }),
  command('restart', {
    file: 'daemon/restart',
    summary: 'Stop the daemon as `stop` does, then start it.',
    flags: [...listeners, drain, force, wait],
    examples: ['restart'],
  }),
  command('status', {
    file: 'daemon/status',
    isEveryday: true,
    isQuick: true,
    summary:
      'State of the daemon, its addresses and its runs. Exit 0 running, 1 crashed, 3 ' +
      'stopped, 4 unresponsive.',
    flags: [
      flag('why', 'The events that led here.'),
      flag('at <seq>', 'The state after this event of the log.'),
      flag('watch', 'Print each change until interrupted.'),
    ],
    examples: ['status', 'status --why'],
  }),
  command('health', {
    isQuick: true,
    summary:
      'Ask the daemon whether it is live and ready. Exit 0 serving, 4 not serving, 3 unreachable.',
    flags: [
      flag('source <http|grpc|socket>', 'Transport to use (default http).'),
      flag('watch', 'Print each change until interrupted.'),
    ],
    examples: ['health --source grpc'],
  }),
  command('logs', {
    isEveryday: true,
    isQuick: true,
    summary:
      'The last log lines, from the files of the log. With --follow, and with --tail without a ' +
      'number, new lines too.',
    flags: [
      flag('tail [n]', 'Number of lines (default 100). Without a number, also follow.', {
        short: 'n',
      }),
      flag('follow', 'Print new lines as they arrive.', { short: 'f' }),
      flag('level <level>', 'Lines of this level and above.'),
      flag('run <id>', 'Lines of this run: its id, its beginning, or last.'),
      flag('since <time>', 'Lines since an RFC 3339 time, or an age such as 10m, 2h, 1d.'),
    ],
    examples: ['logs --tail 100', 'logs -f --level warn'],
  }),
  command('doctor', {
    isEveryday: true,
    summary:
      'Check the installation and the daemon, running or not: ' +
      'what is wrong and how to fix it. Exit 1 if a check fails.',
    examples: ['doctor'],
  }),
  command('version', {
    file: 'version',
    isQuick: true,
    summary: 'Version of the program, and of the running daemon if it differs.',
    examples: ['version'],
  }),
  command('model list', {
    alias: { words: ['list', 'ls'] },
    isEveryday: true,
    isQuick: true,
    summary:
      'Models of every reachable provider, also those that Ollama, LM Studio and Hugging ' +
      'Face have on this disk. Says why a file is invalid.',
    examples: ['model list --json'],
  }),
  command('model show', {
    alias: { words: ['show'] },
    isQuick: true,
    args: '<id>',
    summary:
      'One model: its architecture, template, licence, memory, and where it came from, with ' +
      'the metadata of its file. Exit 7 if it is invalid.',
    flags: [flag('modelfile', 'Print the Modelfile that makes the model again.')],
    examples: ['model show local/svc-mini', 'model show mario --modelfile'],
  }),
  command('model search', {
    args: '[words…]',
    summary:
      'Models with a short name that have these words in their name, licence or purpose. ' +
      'Works offline. With --hub, searches the hub: for words, or for the models of user/repo.',
    flags: [flag('hub', 'Ask the hub, Hugging Face unless HF_ENDPOINT is set.')],
    examples: [
      'model search',
      'model search code',
      'model search llama --hub',
      'model search user/repo --hub',
    ],
  }),
  command('model pull', {
    alias: { words: ['pull'] },
    isEveryday: true,
    args: '[ref]',
    summary:
      'Download a GGUF model into the models folder and verify it. ' +
      'An interrupted download resumes when the command is repeated. ' +
      'A short name such as qwen3:0.6b is one of svc model search; ' +
      'hf:user/repo takes Q4_K_M, else the smallest; hf:user/repo:Q8_0, ' +
      'hf:user/repo/file.gguf or an https URL name the file. ' +
      'Without any, it offers models that fit this machine.',
    flags: [
      flag('name <name>', 'Name of the model (default: the file name).'),
      flag('sha256 <hex>', 'Expected hash of the file, if the server does not publish one.'),
      flag('anyway', 'Also a model that does not fit the memory.'),
    ],
    examples: [
      'model pull qwen3:0.6b',
      'model pull hf:user/repo:Q4_K_M',
      'model pull https://example.org/tiny.gguf --name tiny',
    ],
  }),
  command('model import', {
    args: '<file>',
    summary:
      'Put a GGUF file into the models folder: as a hard link where the disk allows it, ' +
      'else as a copy. The file is checked first.',
    flags: [flag('name <name>', 'Name of the model (default: the file name).')],
    examples: ['model import ~/Downloads/tiny.gguf', 'model import tiny.gguf --name mine'],
  }),
  command('model create', {
    alias: { words: ['create'] },
    args: '<name>',
    summary:
      'Make a model of a Modelfile, as Ollama has it: a model that is here, under one more name, ' +
      'with its own system text, parameters, template, adapters and examples.',
    flags: [
      flag('file <path>', 'The Modelfile, or - for stdin (default: Modelfile in this folder).'),
    ],
    examples: ['model create mario --file Modelfile', 'model create mario --file - < mario.txt'],
  }),
  command('model use', {
    isQuick: true,
    args: '<id>',
    summary: 'Make a model the default of the local engine, now and after a restart.',
    examples: ['model use qwen3:0.6b'],
  }),
  command('model default', {
    isQuick: true,
    args: '[id]',
    summary: 'Print the default model of the local engine. With a model: svc model use.',
    examples: ['model default', 'model default qwen3:0.6b'],
  }),
  command('model alias', {
    alias: { words: ['cp'], isReversed: true },
    isQuick: true,
    args: '[name] [model]',
    summary:
      'Other names of models. Without arguments, list them; with a name and a model, set one.',
    flags: [flag('remove', 'Remove the alias.')],
    examples: ['model alias', 'model alias fast local/qwen3-0.6b', 'model alias fast --remove'],
  }),
  command('model remove', {
    alias: { words: ['rm'] },
    args: '<id…>',
    summary:
      'Delete models from the models folder, or remains of downloads. Of a created model, ' +
      'or another alias, only the name goes.',
    examples: ['model remove local/tiny', 'model remove qwen3:0.6b llama3.2'],
  }),
  command('engine list', {
    summary: 'Builds of the local engine for graphics cards, and what it computes on.',
    examples: ['engine list'],
  }),
  command('engine install', {
    args: '[build]',
    summary:
      'Install a build of the local engine. Without a name: the one for the card found. ' +
      'llama-server is the server of llama.cpp, which reads images and sound.',
    flags: [
      flag('archive <file>', 'Archive on this machine. Others are downloaded.', { many: true }),
      flag('from <address>', 'Of llama-server: another archive, or releases as GitHub has them.'),
      flag('sha256 <hex>', 'Of llama-server: expected hash of the archive.'),
    ],
    examples: ['engine install', 'engine install vulkan', 'engine install llama-server'],
  }),
  command('engine remove', {
    args: '<build>',
    summary: 'Remove a build of the local engine, or all builds of an older version.',
    examples: ['engine remove vulkan'],
  }),
  command('model ps', {
    alias: { words: ['ps'] },
    isQuick: true,
    summary: 'Local models in memory, with their state, memory and the time at which they leave.',
    examples: ['model ps', 'model ps --json'],
  }),
  command('model load', {
    isQuick: true,
    args: '<model>',
    summary: 'Load a local model into memory before its first run.',
    flags: [
      flag(
        'keep-alive <time>',
        'How long it stays without work, such as 30s, 10m or 2h; -1: for ever.',
      ),
    ],
    examples: ['model load svc-mini --keep-alive 2h'],
  }),
  command('model unload', {
    isQuick: true,
    args: '<model>',
    summary: 'Remove a local model from memory. One that answers runs is not removed.',
    examples: ['model unload svc-mini'],
  }),
  command('provider list', {
    isQuick: true,
    summary: 'Providers, their state and its reason.',
    examples: ['provider list --json'],
  }),
  command('provider add', {
    isEveryday: true,
    args: '<id>',
    summary: 'Configure a provider; takes effect at once.',
    flags: providerFlags,
    examples: [
      'provider add openai',
      'provider add bedrock --options region=us-east-1',
      'provider add work --like openai --key file:/run/secrets/work-key',
      'provider add lab --base-url http://10.0.0.5:8000/v1 --model llama3.2',
    ],
  }),
  command('provider set', {
    args: '<id>',
    summary:
      'Change settings of a provider; the others stay. Takes effect at once. ' +
      'A header or option without a text is removed. A new server does not get the old key.',
    flags: providerFlags,
    examples: ['provider set openai --model gpt-5', 'provider set lab --header "X-Team: blue"'],
  }),
  command('provider default', {
    isQuick: true,
    args: '[id]',
    summary: 'Print the provider of runs that name none. With an id, choose it.',
    examples: ['provider default', 'provider default ollama'],
  }),
  command('provider discover', {
    file: 'doctor/discover',
    summary: 'Find the model servers of this machine, such as Ollama, at their usual ports.',
    examples: ['provider discover --json'],
  }),
  command('provider key', {
    args: '<id>',
    summary:
      'Store the key of a provider: typed without echo, or from stdin. ' +
      'The keychain gets it, or else a private file. It counts at once.',
    flags: [
      flag('from-env <NAME>', 'Take it from this variable of the shell.'),
      flag('from-file <file>', 'Take it from this file.'),
      flag('store <keychain|file>', 'Where to store it.'),
      flag('remove', 'Remove the stored key.'),
    ],
    examples: ['provider key openai', 'provider key groq --from-env GROQ_API_KEY'],
  }),
  command('provider remove', {
    args: '<id>',
    summary: 'Remove a provider from the configuration.',
    examples: ['provider remove ollama'],
  }),
  command('provider test', {
    args: '<id>',
    summary: 'Check that a provider is reachable and accepts the key. Uses no tokens.',
    examples: ['provider test ollama'],
  }),
  command('runs list', {
    isQuick: true,
    summary: 'The latest runs, newest first. Works without a daemon.',
    flags: [
      flag('limit <n>', 'Number of runs (default 20).'),
      ...runFilters.map(([name, { short, value, summary }]) => ({
        name,
        ...(short === undefined ? {} : { short }),
        ...(value === undefined ? {} : { value }),
        summary,
      })),
    ],
    examples: ['runs list --state failed', 'runs list --conversation last'],
  }),
  command('usage', {
    file: 'usage',
    isQuick: true,
    summary:
      'Runs, tokens and cost; and the budget of this day for cloud providers. ' +
      'Works without a daemon.',
    flags: [
      flag('since <when>', 'Runs that ended since: a time, or an age: 7d.'),
      flag('by <what>', 'Group the sums by model, provider, client or day (default: model).'),
      flag('conversation <id>', 'Only the conversation of this run.'),
    ],
    examples: ['usage --since 7d --by day', 'usage --conversation last'],
  }),
  command('runs show', {
    isQuick: true,
    args: '<id>',
    summary:
      'One run: its prompt, its answer, how it ended. The id of a run may be its beginning, ' +
      'or last for the newest run. Works without a daemon.',
    examples: ['runs show last', 'runs show run_01J…'],
  }),
  command('runs search', {
    isQuick: true,
    args: '<words…>',
    summary:
      'Finished runs that have all these words in their prompt and answer, newest first. ' +
      'Words in quotes are a phrase, and a * ends the beginning of a word. ' +
      'Works without a daemon.',
    flags: [flag('limit <n>', 'Number of runs (default 20).')],
    examples: [
      'runs search daemon socket',
      'runs search "state machine" recovery',
      "runs search 'deplo*'",
    ],
  }),
  command('runs remove', {
    args: '[id…]',
    summary:
      'Remove finished runs from the log: their prompts, answers and events are no longer ' +
      'in its files. A run with later turns goes with them.',
    flags: [flag('conversation <id>', 'Remove all runs of the conversation of this run.')],
    examples: ['runs remove last', 'runs remove --conversation run_01J…'],
  }),
  command('runs attach', {
    isQuick: true,
    args: '<id>',
    summary:
      'Follow the answer of a run from start to end, even if the daemon restarts. ' +
      'Ctrl-C does not stop the run.',
    flags: [flag('from <seq>', 'Start at this event of the log.'), stats],
    examples: ['runs attach run_01J…'],
  }),
  command('runs cancel', {
    isQuick: true,
    args: '<id>',
    summary: 'Cancel a run; returns when its work has stopped.',
    examples: ['runs cancel run_01J…'],
  }),
  command('runs why', {
    isQuick: true,
    args: '<id>',
    summary: "Explain a run's state, event by event. Works without a daemon.",
    examples: ['runs why run_01J…'],
  }),
  command('runs replay', {
    args: '<id|file>',
    summary:
      'Fold the events of a run again, from the log or from a file that `runs export` ' +
      'wrote: its state and how it got there.',
    flags: [flag('at <seq>', 'The state after this event of the log.')],
    examples: ['runs replay run_01J… --at 120', 'runs replay run.json'],
  }),
  command('runs export', {
    args: '[id]',
    summary:
      'Write a run as a file for `runs replay`. With --all, write the whole log as JSON ' +
      'lines, even if the log is damaged. Writes to stdout unless --output is given.',
    flags: [
      flag(
        'all',
        'The whole log, one event per line. Unreadable events are reported, with exit 1.',
      ),
      flag('output <file>', 'The file to write. An existing file is not overwritten.', {
        short: 'o',
      }),
      flag('redact', 'Replace prompts, answers, messages and names by their lengths.'),
    ],
    examples: [
      'runs export run_01J… --output run.json --redact',
      'runs export --all --output log.jsonl',
    ],
  }),
  command('export', {
    file: 'transfer/export',
    summary:
      'Write the whole log of the configured store as JSON lines for `import`: all events, and ' +
      'what runs used. It has prompts and answers. With SQLite the daemon must be stopped.',
    flags: [
      flag('all', 'The same. At a terminal it says that the log is to be shown there.'),
      flag(
        'output <file>',
        'The file to write (default: stdout). An existing file is not overwritten.',
        { short: 'o' },
      ),
    ],
    examples: ['export --output log.jsonl', 'export | gzip > log.jsonl.gz'],
  }),
  command('import', {
    file: 'transfer/import',
    args: '[file]',
    summary:
      'Read a log that `export` wrote, from a file or stdin, into the configured store. ' +
      'The store must be empty, and no daemon may use it. All of the log is there afterwards, ' +
      'or nothing.',
    examples: ['import log.jsonl', 'import < log.jsonl'],
  }),
  command('approvals list', {
    isQuick: true,
    summary: 'Calls of tools that wait for you: to be allowed, or because they were cut off.',
    examples: ['approvals list'],
  }),
  command('approvals show', {
    isQuick: true,
    args: '<id>',
    summary: 'One call that waits for you, with its whole arguments.',
    examples: ['approvals show run_01J….1', 'approvals show last'],
  }),
  command('approvals allow', {
    file: 'approvals/decide',
    isQuick: true,
    args: '<id>',
    summary: 'Allow a call of a tool. It begins at once.',
    flags: [flag('always', 'Do not ask about this tool any more.')],
    examples: ['approvals allow last', 'approvals allow run_01J….1 --always'],
  }),
  command('approvals deny', {
    file: 'approvals/decide',
    isQuick: true,
    args: '<id>',
    summary: 'Deny a call of a tool. The model gets the reason, and the run continues.',
    flags: [flag('reason <text>', 'The reason that the model gets.')],
    examples: ['approvals deny run_01J….1 --reason "Not on a Friday."'],
  }),
  command('approvals repeat', {
    file: 'approvals/decide',
    isQuick: true,
    args: '<id>',
    summary: 'Carry out a call again that was cut off. It may have done its work before.',
    examples: ['approvals repeat run_01J….1'],
  }),
  command('approvals result', {
    file: 'approvals/decide',
    isQuick: true,
    args: '<id> <text…>',
    summary: 'Give the result of a call that was cut off, as you found it.',
    examples: ['approvals result run_01J….1 "The branch is deleted."'],
  }),
  command('approvals skip', {
    file: 'approvals/decide',
    isQuick: true,
    args: '<id>',
    summary: 'Go on without the result of a call that was cut off.',
    examples: ['approvals skip run_01J….1'],
  }),
  command('nodes', {
    isQuick: true,
    summary: 'The daemons that share one log, with their leases and runs.',
    examples: ['nodes'],
  }),
  command('nodes drain', {
    args: '<id>',
    summary: 'Ask a node to finish its runs and stop. Other nodes take new ones.',
    examples: ['nodes drain node_01J…'],
  }),
  command('machines', {
    args:
      '[daemon|run|tool_call|provider|engine|pull|mcp|lease|conversation|diff] ' +
      '[before] [after]',
    summary:
      'The state machines of the daemon: all, or one. ' +
      'Only --live needs a running daemon. diff shows which states and edges a change removes ' +
      'and adds. Each side is a commit of this checkout or a file of svc machines --json. ' +
      'The second is by default this program. The exit code of diff is 1 if something differs.',
    flags: [
      flag('format <format>', 'mermaid, svg, json or ascii. ascii is for terminals.'),
      flag('live', 'Mark the current states of the running daemon.'),
    ],
    examples: [
      'machines run --format ascii',
      'machines daemon --live',
      'machines diff main',
      'machines diff before.json',
    ],
  }),
  command('console', {
    file: 'console',
    isEveryday: true,
    summary: 'Open the console in the browser, signed in: live machines, runs, logs and history.',
    flags: [
      flag('no-open', 'Print the address instead. It is valid for one sign-in, for one minute.'),
      flag('app', 'In its own window, with Chromium, Chrome or Edge. Otherwise in the browser.'),
      flag('no-start', 'Fail if the daemon is not running.'),
    ],
    examples: ['console'],
  }),
  command('launch', {
    args: '<program> [words…]',
    summary:
      'Start a third-party program, such as claude, codex, opencode or aider, with a model of ' +
      'svc. Words after -- are for the program.',
    flags: [
      model,
      flag('config', 'Write the configuration of the program instead.'),
      flag('yes', 'Write it without a question.'),
    ],
    examples: ['launch claude', 'launch codex -m local/qwen3 -- exec "Fix the test."'],
  }),
  command('mcp list', {
    isQuick: true,
    summary: 'The tool servers, and their states. Works without a daemon.',
    examples: ['mcp list'],
  }),
  command('mcp add', {
    args: '<name> [command…]',
    summary:
      'Add a tool server: a command, an address, or folders and hosts for svc itself. ' +
      'Works without a daemon.',
    flags: mcpFlags,
    examples: [
      'mcp add everything -- npx -y @modelcontextprotocol/server-everything',
      'mcp add notes --folder ~/notes',
      'mcp add web --host docs.python.org',
      'mcp add issues --url https://example.org/mcp --header "Authorization: Bearer TOKEN"',
    ],
  }),
  command('mcp show', {
    args: '<name>',
    summary: 'A tool server, and its tools with their policies. It is started for that.',
    flags: [flag('full', 'With whole descriptions and schemas.')],
    examples: ['mcp show files'],
  }),
  command('mcp test', {
    args: '<name>',
    summary: 'Start a tool server, and list its tools.',
    examples: ['mcp test files'],
  }),
  command('mcp set', {
    args: '<name> [command…]',
    summary: 'Change a tool server. Works without a daemon.',
    flags: [
      ...mcpFlags,
      flag('untrusted', 'No longer trust the descriptions of its tools.'),
      flag('tool <rule>', 'A rule for one tool: <tool>=allow, <tool>=ask or <tool>=deny.', {
        many: true,
      }),
      flag('key <name>', 'Store this variable: its value comes from stdin.'),
      flag('client-secret', 'Store the secret of that client id: it comes from stdin.'),
      flag('disable', 'Switch it off.'),
      flag('enable', 'Switch it on again.'),
    ],
    examples: ['mcp set files --trusted', 'mcp set files --tool write_file=deny'],
  }),
  command('mcp remove', {
    args: '<name>',
    summary: 'Remove a tool server.',
    examples: ['mcp remove files'],
  }),
  command('mcp login', {
    args: '<name>',
    summary: 'Log in at a tool server with a browser (OAuth). Works without a daemon.',
    flags: [
      flag('scope <scopes>', 'Ask for these scopes. Default: those that the server names.'),
      flag('no-browser', 'Only print the address.'),
    ],
    examples: ['mcp login issues', 'mcp login issues --scope "read write"'],
  }),
  command('mcp logout', {
    args: '<name>',
    summary: 'End the tokens of svc mcp login, and remove them. Works without a daemon.',
    examples: ['mcp logout issues'],
  }),
  command('mcp serve', {
    summary: 'Act as a tool server on stdin and stdout: other programs call svc over MCP.',
    flags: [flag('no-start', 'Fail if the daemon is not running.')],
    examples: ['mcp serve'],
  }),
  command('mcp import', {
    args: '<file>',
    summary:
      'Copy the tool servers of another program, such as Claude Desktop or VS Code. It shows ' +
      'what each starts and gets, and asks.',
    flags: [flag('yes', 'Do not ask. Without a terminal nothing is written otherwise.')],
    examples: ['mcp import ~/.cursor/mcp.json', 'mcp import servers.json --yes'],
  }),
  command('preset list', {
    summary: 'The presets: settings of requests by name. Works without a daemon.',
    examples: ['preset list'],
  }),
  command('preset add', {
    args: '<name>',
    summary: 'Keep settings of requests under a name, for svc run --preset and svc chat --preset.',
    flags: [
      flag('template <text>', 'Text that the prompt is put into, at the place of {prompt}.'),
      ...targetFlags,
      ...answerFlags.filter(({ name }) => name !== 'file'),
      tools,
    ],
    examples: [
      'preset add notes --tools notes --system "Answer from my notes."',
      'preset add short --system "Answer in one sentence." --temperature 0',
      'preset add commit --template "Write a commit message for: {prompt}"',
    ],
  }),
  command('preset remove', {
    args: '<name>',
    summary: 'Remove a preset.',
    examples: ['preset remove short'],
  }),
  command('config show', {
    isQuick: true,
    summary: 'The active configuration, and the source of each value.',
    examples: ['config show'],
  }),
  command('config get', {
    isQuick: true,
    args: '<setting>',
    summary: 'Print the active value of one setting.',
    examples: ['config get log_level', 'config get limits.queue_runs'],
  }),
  command('config set', {
    args: '<setting> [value]',
    summary:
      'Write one setting into the configuration file, which keeps its comments. ' +
      'It counts at once where that is possible.',
    flags: [flag('remove', 'Remove the setting: its default counts again.')],
    examples: [
      'config set log_level debug',
      'config set limits.queue_runs --remove',
      `config set presets.short '{"system": "Answer in one sentence."}'`,
    ],
  }),
  command('config edit', {
    summary:
      'Open the configuration file in $VISUAL or $EDITOR. A text with an error does not ' +
      'replace it.',
    examples: ['config edit'],
  }),
  command('config apply', {
    summary:
      'Have the daemon read the configuration file again. Some settings count at once, the ' +
      'others after a restart.',
    examples: ['config apply'],
  }),
  command('config path', {
    isQuick: true,
    summary: 'Print where the configuration file is.',
    examples: ['config path'],
  }),
  command('token', {
    isQuick: true,
    summary:
      'Print the token of this home, for HTTP, WebSocket and gRPC clients. It may do everything.',
    examples: ['token'],
  }),
  command('token rotate', {
    summary:
      'Replace the token of this home, and print the new one. ' +
      'Clients of the old token are disconnected, every browser is signed out, and the runs of ' +
      'the home are cancelled.',
    flags: [keepRuns],
    examples: ['token rotate', 'token rotate --keep-runs'],
  }),
  command('token create', {
    summary:
      'Create a token for a program, and print it once. Runs are recorded with its name, ' +
      'and it can be revoked alone.',
    flags: [
      flag('name <name>', 'Name of the program.'),
      {
        name: 'scope',
        value: '<scope>',
        summary:
          'What it may do: read (sees what all asked), run (asks, and sees only its own) or ' +
          'admin (everything). Default: run.',
      },
      flag('rate <n>/min', 'Most requests a minute.'),
      flag('concurrent <n>', 'Most runs and other requests at one time.'),
    ],
    examples: ['token create --name editor', 'token create --name ci --scope read --rate 60/min'],
  }),
  command('token list', {
    isQuick: true,
    summary: 'The tokens of programs: scope, bounds, last use. Never the tokens themselves.',
    examples: ['token list'],
  }),
  command('token revoke', {
    args: '<name>',
    summary: 'Remove the token of a program. Its requests end, and its runs are cancelled.',
    flags: [keepRuns],
    examples: ['token revoke editor', 'token revoke editor --keep-runs'],
  }),
  command('service install', {
    summary:
      'Run the daemon as a service of your user: systemd, launchd or the task scheduler ' +
      'starts it when you sign in. A daemon that runs is stopped first.',
    flags: [flag('print', 'Print the definition of the service, and change nothing.')],
    examples: ['service install', 'service install --print'],
  }),
  command('service uninstall', {
    summary: 'Stop the service and remove it. The files of the home stay.',
    examples: ['service uninstall'],
  }),
  command('service status', {
    summary: 'Show whether svc is a service, and its state. Exit code 3 when it is not.',
    examples: ['service status'],
  }),
  command('upgrade', {
    file: 'upgrade/upgrade',
    args: '[archive]',
    summary:
      'Replace svc by the version in an archive, if it folds the log to the same states. ' +
      'Without one, show how this installation is upgraded.',
    flags: [
      flag('check', 'Compare only, and change nothing. Contacts no server.'),
      flag('back', 'Return to the previous version, if it can read the log.'),
      flag('sha256 <digest>', 'Digest of the archive. By default it is in SHA256SUMS beside it.'),
    ],
    examples: [
      'upgrade',
      'upgrade --check svc-1.0.0-linux-x64.tar.gz',
      'upgrade svc-1.0.0-linux-x64.tar.gz',
      'upgrade --back',
    ],
  }),
  command('uninstall', {
    file: 'uninstall',
    summary:
      'Stop the daemon, remove its service, and list the files that stay. It deletes no file.',
    examples: ['uninstall'],
  }),
  command('api', {
    file: 'api',
    args: '<method> <path>',
    summary:
      'Send a request to the HTTP API over the local socket, without a token or a port. ' +
      'The response is streamed to stdout.',
    flags: [
      flag('data <json|@file|->', 'Body of the request: JSON, a file, or - for stdin.', {
        short: 'd',
      }),
      flag('stream', 'Request an event stream (Accept: text/event-stream).'),
    ],
    examples: [
      'api GET /v1/runs',
      `api POST /v1/runs --data '{"prompt":"What is a run?"}' --stream`,
    ],
  }),
  command('completion', {
    isQuick: true,
    args: '[shell]',
    summary: 'Print the completion script for bash, zsh or fish.',
    examples: ['completion bash'],
  }),
];

/** The commands of a group such as `runs`; empty for a command. */
export function groupOf(name: string): CommandSpec[] {
  return commands.filter((command) => command.name.startsWith(`${name} `));
}

/** The first words that several commands have, or that lead to a second one. */
export function groups(): string[] {
  const firsts = commands.map(({ name }) => name.split(' ', 1)[0] ?? name);
  return [...new Set(firsts)].filter((name) => groupOf(name).length > 0);
}

/** The first sentence of a summary, for a place with one line. */
export function shortSummary(summary: string): string {
  return /^.*?[.:;](?=\s|$)/.exec(summary)?.[0].replace(/[.:;]$/, '') ?? summary;
}
