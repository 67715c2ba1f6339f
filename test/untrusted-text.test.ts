import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { knownNames } from '../src/cli/completion/known.ts';
import { agentText } from '../src/cli/upkeep/service/launch-agent.ts';
import { describeService } from '../src/cli/upkeep/service/service.ts';
import { unitText } from '../src/cli/upkeep/service/systemd.ts';
import { isInAddress } from '../src/cloud/remote/upstream.ts';
import { checkKey } from '../src/config/keys/key-file.ts';
import type { AdapterName } from '../src/config/providers/adapters.ts';
import { findSetting } from '../src/config/setting-keys.ts';
import { SvcError } from '../src/errors.ts';
import { findPaths } from '../src/home/paths.ts';
import { defaultLimits } from '../src/limits.ts';
import { createLineFormat } from '../src/logs/format-line.ts';
import { oneLine, toPlain } from '../src/logs/plain.ts';
import { modelNameOf, readModelName } from '../src/models/file-name.ts';
import { formatFamilies } from '../src/observability/metrics/format.ts';
import { Counter } from '../src/observability/metrics/tally.ts';
import { searchRuns } from '../src/runtime/runs/search.ts';
import { writeSignInPage } from '../src/transport/auth/sign-in-page.ts';
import { requestIdOf } from '../src/transport/request-id.ts';
import { outcome, remote, SECRET_KEY } from './helpers/remote.ts';
import { type Received, Upstream } from './helpers/upstream.ts';
import { placed } from './kernel/store/samples.ts';

/**
 * The places of foreign texts where a part of the text could mean something. A new place is a new
 * row.
 */
interface Place {
  place: string;
  /** Texts that would mean something there. */
  hostile: readonly string[];
  /** What reaches the place. Null: the text is refused before. */
  reach(text: string): Promise<string | null> | string | null;
  never: string;
  /** Whether that happens. */
  isHarmed(reached: string, text: string): boolean;
}

const folder = mkdtempSync(join(tmpdir(), 'svc-texts-'));
let upstream: Upstream;
test.before(async () => {
  upstream = await Upstream.start();
});
test.after(async () => {
  await upstream.stop();
  rmSync(folder, { recursive: true, force: true });
});

const LEAVES = [
  'x/../../../../any/endpoint:deleteEverything#',
  '..',
  '.',
  './m',
  'm/..',
  'a//b',
  '/m',
  'm/',
  'm?alt=',
  'm#',
  'a%2e%2e/b',
  '%2e%2e',
  'a\\..\\b',
  'm\nHost: x',
  'publishers/../../m',
];
const BREAKS = ['a\nExecStartPre=/bin/touch /x\nX=', 'a\rb', 'a\0b', 'a\x1b]0;x\x07', 'a\x85b'];
const MARKUP = [
  '<script>alert(1)</script>',
  '"><img src=x onerror=alert(1)>',
  `'" onload="x`,
  '&lt;',
];

/** The path of the request for this model, with a key. */
function askedAt(adapter: AdapterName, call: 'answer' | 'vectors') {
  return async (model: string): Promise<string | null> => {
    const received: Received[] = [];
    upstream.scenario = (exchange) => {
      received.push(exchange.received);
      exchange.reply(404, { error: { message: 'there is none' } });
    };
    const provider = remote(upstream.base_url, {
      config: { adapter, kind: 'cloud', key: 'env:TEST_KEY', options: { region: 'us-east-1' } },
    });
    const { signal } = new AbortController();
    try {
      if (call === 'answer') await outcome(provider, { request: { model } });
      else await provider.embed?.(model, ['a text'], {}, signal);
    } catch (error) {
      if (!(error instanceof SvcError)) throw error;
    } finally {
      await provider.close();
    }
    return received.length === 0 ? null : received.map(({ path }) => path).join('\n');
  };
}
const base = () => new URL(upstream.base_url).pathname;

const inPath = (['google', 'vertex', 'bedrock'] as const).flatMap((adapter) =>
  (['answer', 'vectors'] as const).map(
    (call): Place => ({
      place: `the name of a model in the path of ${adapter} (${call})`,
      hostile: LEAVES,
      reach: askedAt(adapter, call),
      never: 'a request outside the models of the provider',
      isHarmed: () => true,
    }),
  ),
);

const places: readonly Place[] = [
  ...inPath,
  ...(['openai', 'anthropic', 'mistral', 'cohere', 'azure', 'openai-compatible'] as const).map(
    (adapter): Place => ({
      place: `the name of a model, which ${adapter} has in the body`,
      hostile: LEAVES,
      reach: askedAt(adapter, 'answer'),
      never: 'another path',
      isHarmed: (paths) => /\.\.|any|alt=|%2e/.test(paths) || !paths.startsWith(base()),
    }),
  ),
  {
    place: 'the address of a request, of an adapter to come',
    hostile: ['/../admin', '/m/../../x', '/m#', '/%2e%2e/x', '/a\\..\\..\\x', '.evil.example/x'],
    reach: (text) =>
      isInAddress(`https://a.example/v1${text}`, 'https://a.example/v1') ? text : null,
    never: 'an address outside base_url',
    isHarmed: () => true,
  },
  {
    place: 'the whole address of a request, of an adapter to come',
    hostile: ['https://evil.example/v1/m', 'http://a.example/v1/m', 'https://a.example:444/v1/m'],
    reach: (text) => (isInAddress(text, 'https://a.example/v1') ? text : null),
    never: 'another host, scheme or port',
    isHarmed: () => true,
  },
  {
    place: 'the name of a downloaded or imported file',
    hostile: [...LEAVES, 'svc-mini', 'SVC-MINI.gguf', 'm-00002-of-00003', 'nul', '../../etc/x', ''],
    reach: (text) => modelNameOf(text),
    never: 'a file elsewhere, or one that no list has',
    isHarmed: (name) =>
      !/^[A-Za-z0-9][\w.-]*$/.test(name) || /^(svc-mini|nul|.*-of-\d+)$/i.test(name),
  },
  {
    place: 'the name that a user gives a model',
    hostile: [...LEAVES, 'svc-mini', 'm-00002-of-00003.gguf', 'nul', ''],
    reach: refusable(readModelName),
    never: 'a file elsewhere, or one that no list has',
    isHarmed: () => true,
  },
  {
    place: 'a key in a header',
    hostile: ['k\r\nX-Admin: 1', 'k\nb', 'k b', 'k\0', 'ключ'],
    reach: refusable((text) => checkKey(text, 'The key')),
    never: 'a second header',
    isHarmed: () => true,
  },
  {
    place: 'the id of a request, in headers and log lines',
    hostile: [...BREAKS, 'a b', 'x'.repeat(129), 'é'],
    reach: (text) => requestIdOf({ headers: { 'x-request-id': text } }),
    never: 'a text that is more than one word',
    isHarmed: (id) => !/^req_[\w]+$/.test(id),
  },
  {
    place: 'the path of the home, in every file and message',
    hostile: BREAKS,
    reach: refusable((text) => findPaths({ SVC_HOME: `/srv/${text}` }).home),
    never: 'a line of its own',
    isHarmed: () => true,
  },
  ...(
    ['HOME', 'XDG_CONFIG_HOME', 'XDG_DATA_HOME', 'XDG_STATE_HOME', 'XDG_CACHE_HOME'] as const
  ).flatMap((name) =>
    (['/srv/', ''] as const).map(
      (root): Place => ({
        place: `${name} (${root === '' ? 'relative' : 'absolute'}) in the files of a service`,
        hostile: root === '' && name === 'HOME' ? [] : BREAKS.map((text) => root + text),
        reach: refusable((text) => filesOfService({ HOME: '/srv/home', [name]: text })),
        never: 'a directive',
        isHarmed: (files) => files.includes('ExecStartPre') || /[^\P{Cc}\n]/u.test(files),
      }),
    ),
  ),
  {
    place: 'a folder in the unit of systemd',
    hostile: ['a "b"', 'a%h', '$HOME', 'a" ExecStart=/x', 'a\\'],
    reach: (text) => unitText(serviceAt(text)),
    never: 'a specifier, or the end of a quoted text',
    isHarmed: (unit) =>
      !/^Environment="SVC_HOME=(?:[^"\\%]|\\.|%%)*"$/m.test(unit) || /(?<!%)%h/.test(unit),
  },
  {
    place: 'a folder in the agent of launchd',
    hostile: ['<key>x</key>', '&lt;', ']]>', '</string>'],
    reach: (text) => agentText(serviceAt(text)),
    never: 'an element',
    isHarmed: (agent) => !/^ {4}<string>\/srv\/(?:[^<>&]|&(?:amp|lt|gt);)*<\/string>$/m.test(agent),
  },
  {
    place: 'a file name that the shell completes',
    hostile: ['$(touch x)', '`id`', 'a;b', 'a b', "a'b", 'a\nb', 'a|b', '*', 'a>b'],
    reach: async (text) => {
      const home = mkdtempSync(join(folder, 'home-'));
      const paths = findPaths({ SVC_HOME: home });
      const models = join(home, 'data', 'models');
      await import('node:fs/promises').then(({ mkdir }) => mkdir(models, { recursive: true }));
      writeFileSync(join(models, `${text}.gguf`), '');
      const names = await knownNames('models', paths);
      return names.filter((name) => name !== 'local/svc-mini').join('\n') || null;
    },
    never: 'a word that a shell runs or splits',
    isHarmed: () => true,
  },
  {
    place: 'a line on a terminal',
    hostile: [...BREAKS, '\x1b[2J', 'a\u202eb', '\x9b2J', 'a\u2028b'],
    reach: (text) => oneLine(text),
    never: 'a control character, or another line',
    isHarmed: (line) => /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u.test(line),
  },
  {
    place: 'an answer on a terminal',
    hostile: ['\x1b[2J', '\x1b]52;c;x\x07', '\x9b2J', 'a\u202eb'],
    reach: (text) => toPlain(text),
    never: 'a control character',
    isHarmed: (text) => /[^\P{Cc}\n\t]|[\u202a-\u202e\u2066-\u2069]/u.test(text),
  },
  {
    place: 'a line of the log, as text',
    hostile: BREAKS,
    reach: (text) =>
      createLineFormat({ colour: false, columns: null })(
        JSON.stringify({ level: 'warn', time: 0, msg: text, model: text, [text]: text }),
      ),
    never: 'a second line',
    isHarmed: (line) => /\p{Cc}/u.test(line),
  },
  {
    place: 'a label of a metric',
    hostile: ['m"} 1\nsvc_up{x="', 'a\nb', 'a\\', '"'],
    reach: (text) => {
      const counter = new Counter('svc_runs', 'Runs.');
      counter.add({ model: text });
      return formatFamilies([counter.family()]);
    },
    never: 'another sample',
    isHarmed: (shown) =>
      !/^# HELP .*\n# TYPE .*\nsvc_runs\{model="(?:[^"\\\n]|\\[\\n"])*"\} 1\n*$/.test(shown),
  },
  {
    place: 'a key of the configuration',
    hostile: [
      '__proto__',
      'constructor',
      'limits.__proto__',
      'limits.constructor',
      'history.toString',
    ],
    reach: (text) => findSetting(text)?.key ?? null,
    never: 'a setting',
    isHarmed: () => true,
  },
  {
    place: 'an address in the page that signs in',
    hostile: [...MARKUP, '</script><script>x', '\u2028x'],
    reach: async (text) => {
      const { path } = await writeSignInPage(folder, `http://127.0.0.1:1/#${text}`);
      return readFileSync(path, 'utf8');
    },
    never: 'an element or a handler',
    isHarmed: (page, text) => /<script>(alert|x)|<img|" onload="/.test(page) && page.includes(text),
  },
];

function refusable(read: (text: string) => string) {
  return (text: string): string | null => {
    try {
      return read(text);
    } catch (error) {
      if (error instanceof SvcError) return null;
      throw error;
    }
  };
}

function serviceAt(folder: string) {
  const env = { SVC_HOME: `/srv/${folder}` };
  return describeService(findPaths(env), env);
}

function filesOfService(env: NodeJS.ProcessEnv): string {
  const service = describeService(findPaths(env), env);
  return `${unitText(service)}\n${agentText(service)}`;
}

for (const { place, hostile, reach, never, isHarmed } of places)
  test(`${place}: never ${never}`, async () => {
    for (const text of hostile) {
      const reached = await reach(text);
      assert.not.ok(
        reached !== null && isHarmed(reached, text),
        `${JSON.stringify(text)} became ${JSON.stringify(reached)}`,
      );
    }
  });

test(
  'words that are searched are words, whatever they mean to SQL and to its index',
  placed(async (place) => {
    const store = place.store();
    await store.open();
    try {
      for (const words of [
        '"',
        "' OR 1=1 --",
        'a" OR "b',
        'NEAR(a b)',
        'text:a',
        '*',
        'a*"',
        ') OR (',
        'a\0b',
      ]) {
        const found = await searchRuns(store, { words }, defaultLimits).catch(
          (error: SvcError) => error.code,
        );
        const isNone = typeof found === 'object' && found.runs.length === 0;
        assert.ok(found === 'invalid_request' || isNone, `${words}: ${JSON.stringify(found)}`);
      }
    } finally {
      await store.close();
    }
  }),
);

test('plain names reach their place', async () => {
  for (const adapter of ['google', 'vertex', 'bedrock'] as const)
    for (const model of ['gemini-2.5-pro', 'publishers/a/models/b', 'a.b:c@1', 'über'])
      assert.ok(
        (await askedAt(adapter, 'answer')(model))?.startsWith(base()),
        `${adapter} ${model}`,
      );
  for (const [base_url, url] of [
    ['https://a.example/v1', 'https://a.example/v1/models/m:x?alt=sse'],
    ['https://a.example/v1/', 'https://a.example/v1/m'],
    ['https://a.example:443', 'https://a.example:443/v1/m'],
    ['HTTP://LOCALHOST/a/../v1', 'HTTP://LOCALHOST/a/../v1/m?x=/../'],
    [null, 'https://b.example/v1/m...n'],
  ] as const)
    assert.ok(isInAddress(url, base_url), url);
});

test('a key that an upstream repeats in its answer is taken out, however the answer is cut', async () => {
  const said = `your key is ${SECRET_KEY}, and ${SECRET_KEY.slice(0, 9)} is its beginning: sk-`;
  for (const length of [1, 2, 5, 7, 1000]) {
    const pieces = said.match(new RegExp(`.{1,${length}}`, 'gs')) ?? [];
    for (const adapter of ['openai-compatible', 'mistral'] as const) {
      upstream.scenario = (exchange) => exchange.answer(...pieces);
      const provider = remote(upstream.base_url, {
        config: { adapter, kind: 'cloud', key: 'env:TEST_KEY' },
      });
      const { text, failure } = await outcome(provider);
      await provider.close();
      assert.is(failure, null);
      assert.not.match(text, SECRET_KEY.slice(3));
      assert.match(text, /^your key is s?k?-?\[key\], and sk-test-4 is its beginning: sk-$/);
    }
  }
});

test.run();
