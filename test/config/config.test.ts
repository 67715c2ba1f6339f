import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { isLoopback, parseAddress } from '../../src/config/address.ts';
import { type Config, type ConfigOptions, loadConfig } from '../../src/config/config.ts';
import { type Settings, settingSpecs } from '../../src/config/settings.ts';
import { SvcError } from '../../src/errors.ts';
import { CONFIG_BYTES_MAX, defaultLimits, limitSpecs } from '../../src/limits.ts';

const home = mkdtempSync(join(tmpdir(), 'svc-config-'));
const file = join(home, 'config.json');
test.after(() => rmSync(home, { recursive: true, force: true }));

function load(text: string | Uint8Array | null, options: ConfigOptions = {}): Config {
  rmSync(file, { recursive: true, force: true });
  if (text !== null) writeFileSync(file, text);
  return loadConfig(file, { env: {}, ...options });
}

/** The message, the file shown as `file`. */
function refused(text: string | Uint8Array, options: ConfigOptions = {}): string {
  try {
    load(text, options);
  } catch (error) {
    assert.instance(error, SvcError);
    assert.is((error as SvcError).code, 'config_invalid');
    return (error as SvcError).message.replaceAll(file, 'file');
  }
  throw new Error('it was accepted');
}

/** Each setting with one value for each source, as it is written there. */
const values: {
  [K in keyof Settings]: { file: unknown; env: string; flag: unknown; read: Settings[K][] };
} = {
  http: {
    file: '127.0.0.1:1',
    env: '127.0.0.1:2',
    flag: '[::1]:3',
    read: ['127.0.0.1:1', '127.0.0.1:2', '[::1]:3'],
  },
  grpc: {
    file: '127.0.0.1:1',
    env: 'localhost:0',
    flag: '0.0.0.0:3',
    read: ['127.0.0.1:1', 'localhost:0', '0.0.0.0:3'],
  },
  model_templates: {
    file: { tiny: 'chatml' },
    env: '{"tiny": "/a.jinja"}',
    flag: '{}',
    read: [{ tiny: 'chatml' }, { tiny: '/a.jinja' }, {}],
  },
  llama_server: { file: '/a', env: '/b', flag: 'null', read: ['/a', '/b', null] },
  model_adapters: {
    file: { tiny: ['/a.gguf'] },
    env: '{"tiny": ["/a.gguf", "/b.gguf"]}',
    flag: '{}',
    read: [{ tiny: ['/a.gguf'] }, { tiny: ['/a.gguf', '/b.gguf'] }, {}],
  },
  model_drafts: {
    file: { large: 'small' },
    env: '{"large": "tiny"}',
    flag: '{}',
    read: [{ large: 'small' }, { large: 'tiny' }, {}],
  },
  tls_cert: { file: '/a.pem', env: '/b.pem', flag: 'null', read: ['/a.pem', '/b.pem', null] },
  tls_key: { file: '/a.key', env: '/b.key', flag: 'null', read: ['/a.key', '/b.key', null] },
  auth: { file: false, env: '1', flag: false, read: [false, true, false] },
  allowed_origins: {
    file: ['https://A.example/'],
    env: 'http://b.example:80, vscode-webview://c',
    flag: 'https://d.example',
    read: [
      ['https://a.example'],
      ['http://b.example', 'vscode-webview://c'],
      ['https://d.example'],
    ],
  },
  allowed_hosts: {
    file: ['Host.Docker.internal'],
    env: 'nas:8080, *.example',
    flag: '[::1]:80',
    read: [['host.docker.internal'], ['nas:8080', '*.example'], ['[::1]:80']],
  },
  store: {
    file: 'postgres://u:hidden@h/db',
    env: 'sqlite',
    flag: 'postgresql://h:1/db',
    read: ['postgres://u@h/db', 'sqlite', 'postgresql://h:1/db'],
  },
  store_password_file: { file: '/a', env: '/b', flag: 'null', read: ['/a', '/b', null] },
  strict_requests: { file: true, env: '0', flag: true, read: [true, false, true] },
  metrics_public: { file: true, env: '0', flag: true, read: [true, false, true] },
  otlp_endpoint: {
    file: 'http://127.0.0.1:1',
    env: 'https://b.example/otlp',
    flag: 'null',
    read: ['http://127.0.0.1:1', 'https://b.example/otlp', null],
  },
  log_level: { file: 'debug', env: 'warn', flag: 'error', read: ['debug', 'warn', 'error'] },
  default_provider: { file: 'a', env: 'b', flag: 'c', read: ['a', 'b', 'c'] },
  default_cloud_provider: { file: 'a', env: 'null', flag: 'c', read: ['a', null, 'c'] },
  model: { file: 'a', env: './b.gguf', flag: 'c', read: ['a', './b.gguf', 'c'] },
  model_folders: { file: ['/a'], env: '/b, /c', flag: 'null', read: [['/a'], ['/b', '/c'], null] },
  other_models: { file: false, env: '1', flag: false, read: [false, true, false] },
  aliases: {
    file: { 'gpt-4o': 'local/svc-mini' },
    env: '{"a":"b"}',
    flag: {},
    read: [{ 'gpt-4o': 'local/svc-mini' }, { a: 'b' }, {}],
  },
  presets: {
    file: { short: { system: 'Be short.', temperature: 0, stop: ['END'] } },
    env: '{"a":{"template":"Say: {prompt}","model":["m","n"]}}',
    flag: '{}',
    read: [
      { short: { system: 'Be short.', temperature: 0, stop: ['END'] } },
      { a: { template: 'Say: {prompt}', model: ['m', 'n'] } },
      {},
    ],
  },
  prices: {
    file: { 'far/m': { input: 1, output: 2 } },
    env: '{"far/*":{"input":0,"output":0.5}}',
    flag: '{}',
    read: [{ 'far/m': { input: 1, output: 2 } }, { 'far/*': { input: 0, output: 0.5 } }, {}],
  },
  currency: { file: 'EUR', env: 'CHF', flag: 'USD', read: ['EUR', 'CHF', 'USD'] },
  budget_per_day: { file: 2.5, env: '0', flag: 'null', read: [2.5, 0, null] },
  budget_tokens_per_day: { file: 1000, env: '2', flag: 'null', read: [1000, 2, null] },
  ask_again: { file: true, env: '0', flag: true, read: [true, false, true] },
  recovery: { file: 'restart', env: 'end', flag: 'resume', read: ['restart', 'end', 'resume'] },
  models_memory_bytes: {
    file: 2 ** 30,
    env: '2147483648',
    flag: 'null',
    read: [2 ** 30, 2 ** 31, null],
  },
  keep_alive: {
    file: { 'svc-mini': 1000 },
    env: '{"tiny":0}',
    flag: '{}',
    read: [{ 'svc-mini': 1000 }, { tiny: 0 }, {}],
  },
  engine_batching: { file: true, env: '0', flag: 'auto', read: [true, false, 'auto'] },
  engine_preload: { file: false, env: '1', flag: 'false', read: [false, true, false] },
  engine_cache_keys: { file: 'q8_0', env: 'bf16', flag: 'f16', read: ['q8_0', 'bf16', 'f16'] },
  engine_cache_values: { file: 'q4_0', env: 'f16', flag: 'f32', read: ['q4_0', 'f16', 'f32'] },
  engine_flash_attention: { file: true, env: '1', flag: 'auto', read: [true, true, 'auto'] },
  engine_gpu_layers: { file: 8, env: 'max', flag: 'auto', read: [8, 'max', 'auto'] },
  engine_threads: { file: 2, env: '3', flag: 'null', read: [2, 3, null] },
};

for (const [key, given] of Object.entries(values) as [
  keyof Settings,
  (typeof values)[keyof Settings],
][]) {
  test(`${key} comes from the flag, else the environment, else the file, else its default`, () => {
    const env = { [settingSpecs[key].env]: given.env };
    const text = JSON.stringify({ [key]: given.file });
    const seen = [
      load(null),
      load(text),
      load(text, { env }),
      load(text, { env, flags: { [key]: given.flag } }),
    ];
    assert.equal(
      seen.map((config) => [config[key], config.sources[key]]),
      [
        [settingSpecs[key].default, 'default'],
        [given.read[0], 'file'],
        [given.read[1], 'environment'],
        [given.read[2], 'flag'],
      ],
    );
    assert.is(
      load(text, { env: { [settingSpecs[key].env]: '' } }).sources[key],
      'file',
      'an empty variable counts as not set',
    );
  });
}

test('quantized values without flash attention are refused by the name of the setting', () => {
  const text = (engine_cache_values: string, engine_flash_attention: unknown) =>
    JSON.stringify({ engine_cache_values, engine_flash_attention });
  for (const type of ['q8_0', 'q5_1', 'q4_0'])
    try {
      load(text(type, false));
      assert.unreachable(type);
    } catch (error) {
      const { code, param, message } = error as SvcError;
      assert.equal([code, param], ['config_invalid', 'engine_cache_values']);
      assert.match(message, `engine_cache_values is ${type}, and engine_flash_attention is false`);
    }
  const keys = JSON.stringify({ engine_cache_keys: 'q8_0', engine_flash_attention: false });
  assert.is(load(keys).engine_cache_keys, 'q8_0');
  assert.is(load(text('q8_0', 'auto')).engine_cache_values, 'q8_0');
  assert.is(load(text('bf16', false)).engine_cache_values, 'bf16');
});

test('every limit has its default, and comes from the environment, else the file', () => {
  assert.equal(load('{}').limits, defaultLimits);
  for (const [name, { min, max }] of Object.entries(limitSpecs)) {
    const text = JSON.stringify({ limits: { [name]: max } });
    const env = { [`SVC_LIMIT_${name.toUpperCase()}`]: String(min) };
    assert.equal(
      [load(text).limits[name as keyof typeof limitSpecs], load(text).sources[`limits.${name}`]],
      [max, 'file'],
    );
    assert.equal(
      [
        load(text, { env }).limits[name as keyof typeof limitSpecs],
        load(text, { env }).sources[`limits.${name}`],
      ],
      [min, 'environment'],
    );
  }
});

test('no file, an empty one, and one with only comments give the defaults', () => {
  for (const text of [
    null,
    '',
    ' \r\n\t',
    '// nothing yet\n/* at all */',
    '\uFEFF',
    '\uFEFF{}',
    '{ }',
  ])
    assert.is(load(text).http, '127.0.0.1:4780', JSON.stringify(text));
});

test('comments, trailing commas, a byte order mark and CR LF are accepted', () => {
  const config = load(
    '\uFEFF{\r\n  // where\r\n  "http": "127.0.0.1:1", /* and */\r\n  "limits": { "queue_runs": 7, },\r\n}\r\n',
  );
  assert.equal([config.http, config.limits.queue_runs], ['127.0.0.1:1', 7]);
});

const mistakes: [text: string | Uint8Array, message: string][] = [
  ['{\n  "htpp": "x"\n}', 'file:2:3: "htpp" is not a setting.'],
  ['{"constructor": 1}', 'file:1:2: "constructor" is not a setting.'],
  ['{"__proto__": {}}', 'file:1:2: "__proto__" is not a setting.'],
  ['{"limits": {"queue_run": 1}}', 'file:1:13: "queue_run" is not a limit.'],
  ['{"limits": {"toString": 1}}', 'file:1:13: "toString" is not a limit.'],
  ['{"http": 4780}', 'file:1:10: http must be an address such as "127.0.0.1:4780", not 4780.'],
  [
    '{"http": "127.0.0.1:99999"}',
    'file:1:10: http must be an address such as "127.0.0.1:4780", not "127.0.0.1:99999".',
  ],
  ['{"auth": "true"}', 'file:1:10: auth must be true or false, not "true".'],
  ['{"auth": null}', 'file:1:10: auth must be true or false, not null.'],
  [
    '{"log_level": "loud"}',
    'file:1:15: log_level must be one of trace, debug, info, warn, error, fatal, not "loud".',
  ],
  ['{"model": ""}', 'file:1:11: model must be a name, not "".'],
  ['{"model": "a\\u0000b"}', 'file:1:11: model must be a name, not "a\\u0000b".'],
  [
    '{"allowed_origins": "https://a.example"}',
    'file:1:21: allowed_origins must be a list of origins such as "https://example.org", not "https://a.example".',
  ],
  [
    '{"allowed_hosts": ["http://nas"]}',
    'file:1:19: allowed_hosts must be a list of names such as "svc.example", "nas:8080" or "*.example", not ["http://nas"].',
  ],
  [
    '{"allowed_hosts": ["*"]}',
    'file:1:19: allowed_hosts must be a list of names such as "svc.example", "nas:8080" or "*.example", not ["*"].',
  ],
  [
    '{"allowed_origins": ["https://a.example/app"]}',
    'file:1:21: allowed_origins must be a list of origins such as "https://example.org", not ["https://a.example/app"].',
  ],
  [
    '{"engine_threads": 1.5}',
    'file:1:20: engine_threads must be a whole number from 1 to 512, or null, not 1.5.',
  ],
  [
    '{"limits": {"queue_runs": 0}}',
    'file:1:27: limits.queue_runs must be a whole number from 1 to 100000, not 0.',
  ],
  [
    '{"limits": {"queue_runs": "5"}}',
    'file:1:27: limits.queue_runs must be a whole number from 1 to 100000, not "5".',
  ],
  [
    '{"limits": {"queue_runs": 1e99}}',
    'file:1:27: limits.queue_runs must be a whole number from 1 to 100000, not 1e+99.',
  ],
  ['{"limits": []}', 'file:1:12: limits must be an object.'],
  ['{"providers": null}', 'file:1:15: providers must be an object.'],
  ['[]', 'file:1:1: the configuration must be an object.'],
  ['"x"', 'file:1:1: the configuration must be an object.'],
  ['{"http": "127.0.0.1:1",\n "http": "127.0.0.1:2"}', 'file:2:2: "http" is there twice.'],
  [
    '{"providers": {"x": {"base_url": "http://a/v1", "base_url": "http://b/v1"}}}',
    'file:1:49: "base_url" is there twice.',
  ],
  ['{"http": "127.0.0.1:1"\n "auth": true}', 'file:2:2: a comma is expected here.'],
  ['{"http": }', 'file:1:10: a value is expected here.'],
  ["{'http': 1}", 'file:1:2: this is not JSON.'],
  ['{http: 1}', 'file:1:2: this is not JSON.'],
  ['{"http": "x', 'file:1:10: this string is not closed.'],
  ['{"http": "\\x"}', 'file:1:10: this string holds an escape that JSON does not have.'],
  ['{"http": "a\tb"}', 'file:1:10: this string holds a control character; write it as an escape.'],
  ['{} /* x', 'file:1:4: this comment is not closed.'],
  ['{"a": 1', 'file:1:8: a closing } is expected here.'],
  ['{} {}', 'file:1:4: nothing more is expected here.'],
  ['<<<<<<< HEAD\n{}', 'file:1:1: this is not JSON.'],
  ['\r\n\r\n  \u0000', 'file:3:3: this is not JSON.'],
  [Buffer.from([0x7b, 0x0a, 0x20, 0x22, 0xff, 0x22, 0x7d]), 'file:2:3: this is not UTF-8 text.'],
  [Buffer.from('\uFEFF{"auth":true}', 'utf16le'), 'file:1:1: this is not UTF-8 text.'],
  ['['.repeat(200_000), 'file:1:17: this is nested too deeply.'],
  ['{"a":'.repeat(100_000), 'file:1:81: this is nested too deeply.'],
  [
    ' '.repeat(CONFIG_BYTES_MAX + 1),
    `file is larger than a configuration can be (${CONFIG_BYTES_MAX} bytes).`,
  ],
];

for (const [text, message] of mistakes) {
  test(`refused: ${message}`, () => assert.is(refused(text), message));
}

test('a long value is cut in the message', () => {
  assert.ok(refused(`{"http": "${'x'.repeat(500_000)}"}`).length < 200);
});

test('a mistake in a variable or a flag is named', () => {
  assert.is(
    refused('{}', { env: { SVC_HTTP: 'x' } }),
    'environment variable SVC_HTTP: http must be an address such as "127.0.0.1:4780", not "x".',
  );
  assert.is(
    refused('{}', { env: { SVC_LIMIT_QUEUE_RUNS: '1.5' } }),
    'environment variable SVC_LIMIT_QUEUE_RUNS: limits.queue_runs must be a whole number from 1 to 100000, not "1.5".',
  );
  assert.is(
    refused('{}', { env: { SVC_AUTH: 'toString' } }),
    'environment variable SVC_AUTH: auth must be true or false, not "toString".',
  );
  assert.is(
    refused('{}', { flags: { log_level: 'loud' } }),
    '--log-level: log_level must be one of trace, debug, info, warn, error, fatal, not "loud".',
  );
});

test('a misspelt limit in the environment is refused', () => {
  assert.is(
    refused('{}', { env: { SVC_LIMIT_QUEUE_RUN: '5' } }),
    'environment: "SVC_LIMIT_QUEUE_RUN" is not a limit.',
  );
});

test('a mistake in the file is refused even if a flag outranks it', () => {
  assert.match(refused('{"http": 5}', { flags: { http: '127.0.0.1:1' } }), /^file:1:10: http/);
});

test('a folder in place of the file is refused', () => {
  rmSync(file, { force: true });
  mkdirSync(file);
  assert.throws(
    () => loadConfig(file, { env: {} }),
    (error: SvcError) =>
      error.code === 'config_invalid' && error.message === `${file} is not a file.`,
  );
  assert.throws(
    () => loadConfig('/dev/zero', { env: {} }),
    (error: SvcError) => error.message === '/dev/zero is not a file.',
  );
  rmSync(file, { recursive: true });
  symlinkSync(file, file);
  assert.throws(
    () => loadConfig(file, { env: {} }),
    (error: SvcError) =>
      error.message === `${file} cannot be read: it is a link that leads to itself (ELOOP).`,
  );
});

test('only addresses of this machine are loopback', () => {
  for (const host of ['localhost', 'LOCALHOST', '127.0.0.1', '127.255.0.1', '::1', '[::1]'])
    assert.ok(isLoopback(host), host);
  for (const host of [
    '',
    '0.0.0.0',
    '::',
    '128.0.0.1',
    '127.0.0.1.example.org',
    '127.0.0.256',
    '127.0.0',
    'localhost.example.org',
    '[::2]',
    '10.0.0.1',
  ])
    assert.not.ok(isLoopback(host), host);
});

test('an address is a host and a port', () => {
  assert.equal(parseAddress('127.0.0.1:0'), { host: '127.0.0.1', port: 0 });
  assert.equal(parseAddress('[::1]:65535'), { host: '::1', port: 65_535 });
  for (const text of [
    '',
    '127.0.0.1',
    ':80',
    '127.0.0.1:65536',
    '::1:80',
    'a b:80',
    'a:80 ',
    'a:-1',
    'http://a:80',
    'a:8o',
  ])
    assert.is(parseAddress(text), null, text);
});

test('settings of the history come from their part of the file, or from variables', () => {
  assert.equal(load(null).history, {
    keep_days: 30,
    keep_bytes: 1024 ** 3,
    prompts: 'keep',
    outputs: 'keep',
    redact: [],
  });
  const text = '{"history": {"keep_days": null, "prompts": "omit", "redact": ["sk-[a-z]+"]}}';
  const env = { SVC_HISTORY_KEEP_BYTES: '2000000', SVC_HISTORY_REDACT: '["a+", "b"]' };
  const { history, sources } = load(text, { env });
  assert.equal(history, {
    keep_days: null,
    keep_bytes: 2_000_000,
    prompts: 'omit',
    outputs: 'keep',
    redact: ['a+', 'b'],
  });
  assert.equal(
    [sources['history.keep_days'], sources['history.keep_bytes'], sources['history.outputs']],
    ['file', 'environment', 'default'],
  );
});

test('refused: an unknown setting of the history, by name', () => {
  for (const [name, value] of [
    ['keep_days', '0'],
    ['keep_days', '1.5'],
    ['keep_bytes', '5'],
    ['prompts', '"hide"'],
    ['redact', '"a"'],
    ['redact', '["("]'],
    ['redact', '["(a)\\\\1"]'],
    ['redact', '["(?=a)b"]'],
    ['redact', '["a*"]'],
    ['redact', '[""]'],
    ['redact', `["${'x'.repeat(201)}"]`],
    ['redact', '["1","2","3","4","5","6","7","8","9"]'],
  ] as const)
    assert.match(
      refused(`{"history": {"${name}": ${value}}}`),
      `file:1:${15 + name.length + 3}: history.${name} must be`,
      value,
    );
  assert.match(
    refused('{"history": {"days": 3}}'),
    'file:1:14: "days" is not a setting of history',
  );
  assert.match(
    refused('{}', { env: { SVC_HISTORY_REDACT: '(' } }),
    'environment variable SVC_HISTORY_REDACT: history.redact must be',
  );
});

test('no text of a configuration, and no error, has the password of the store', () => {
  const config = load('{"store": "postgres://u:hunter2@h/db"}');
  assert.is(config.storePassword, 'hunter2');
  assert.not.match(inspect(config) + JSON.stringify(config), /hunter2/);
  for (const text of ['"postgres://u:hunter2@h:x/db"', '"mysql://u:hunter2@h/db"']) {
    const refuse = () => load(`{"store": ${text}}`);
    assert.throws(
      refuse,
      (error: Error) => !/hunter2/.test(inspect(error)) && /store must be/.test(error.message),
    );
  }
});

test.run();
