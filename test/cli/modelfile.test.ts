import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeGguf } from '../fixtures/models/make-gguf.ts';
import { type Home, makeHome } from '../helpers/svc.ts';

/** `svc model create`, with a daemon as a process. */

const test = suite<{ home: Home; folder: string }>('a Modelfile on the command line');

test.before(async (context) => {
  const home = makeHome({ SVC_OTHER_MODELS: 'false' });
  context.home = home;
  context.folder = join(home.folder, 'mine');
  for (const folder of [context.folder, home.paths.models])
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  makeGguf(join(home.paths.models, 'base.gguf'));
  const { code, stderr } = await home.svc(['start']);
  assert.is(code, 0, stderr);
});
test.after(({ home }) => home.close());

const MODELFILE = `FROM base
TEMPLATE "{% for m in messages %}[{{ m.role }} {{ m.content }}]{% endfor %}"
PARAMETER num_predict 3
PARAMETER temperature 0
SYSTEM "You are Mario."
MESSAGE user "Who?"
LICENSE "MIT"
`;

test('a model is made, asked, shown and removed by its name', async ({ home, folder }) => {
  const file = join(folder, 'Modelfile');
  writeFileSync(file, `# mine\n${MODELFILE}`);
  const made = await home.svc(['model', 'create', 'mario', '--file', file]);
  assert.equal([made.code, made.stdout], [0, 'mario\n'], made.stderr);
  assert.match(made.stderr, 'It asks local/base. Ask it with: svc run "…" --model mario');

  const run = JSON.parse((await home.svc(['run', 'Hi', '--model', 'mario', '--json'])).stdout);
  assert.equal([run.model, run.usage.output_tokens], ['mario', 3]);
  // Each letter is a token of this model.
  const prompt = '[system You are Mario.][user Who?][user Hi]';
  assert.is(run.usage.input_tokens, prompt.length);

  const listed = await home.svc(['ls']);
  assert.match(listed.stdout, /^mario +alias .* of local\/base$/m);
  const shown = await home.svc(['model', 'show', 'mario']);
  for (const row of [
    /^mario$/m,
    /is made of +local\/base/,
    /template +its own/,
    /system +You are Mario\./,
    /by default +max_tokens 3, temperature 0/,
    /examples +1 messages/,
    /licence +MIT/,
  ])
    assert.match(shown.stdout, row);
  const back = await home.svc(['show', 'mario', '--modelfile']);
  assert.is(back.stdout, MODELFILE.replace('FROM base', 'FROM local/base'));

  const again = await home.svc(['create', 'luigi', '--file', '-'], {
    stdin: 'FROM mario\nSYSTEM Luigi\n',
  });
  assert.is(again.code, 0, again.stderr);
  const other = JSON.parse((await home.svc(['model', 'show', 'luigi', '--json'])).stdout);
  assert.equal(
    [other.alias_of, other.defaults.system, other.defaults.options.max_tokens, other.licence],
    ['local/base', 'Luigi', 3, 'MIT'],
  );

  const removed = await home.svc(['rm', 'mario', 'luigi:latest']);
  assert.equal([removed.code, removed.stdout], [0, 'Removed mario.\nRemoved luigi.\n']);
  assert.is((await home.svc(['run', 'Hi', '--model', 'mario'])).code, 7);
  assert.is((await home.svc(['model', 'show', 'base'])).code, 0, 'the file stays');
});

test('a mistake names its line, and nothing is made', async ({ home, folder }) => {
  const create = (modelfile: string) =>
    home.svc(['model', 'create', 'x', '--file', '-'], { stdin: modelfile });
  const cases: [modelfile: string, code: number, message: string][] = [
    ['FROM base\nPARSER x\n', 2, 'Modelfile, line 2: svc has no instruction "PARSER".'],
    ['FROM base\nTEMPLATE {{ .Prompt }}', 2, 'line 2: TEMPLATE is a template of Go'],
    ['FROM base\n\nTEMPLATE {% for %}', 2, 'line 3: The template cannot be rendered ('],
    ['#\nFROM qwen3:0.6b', 7, 'line 2: There is no model "qwen3:0.6b".'],
    ['#\nFROM qwen3:0.6b', 7, 'Download it with: svc model pull qwen3:0.6b'],
    ['FROM ./none.gguf', 7, 'line 1: There is no GGUF file that the daemon can read'],
    [
      'FROM base\nADAPTER ./none.gguf',
      2,
      `line 2: There is no file ${join(process.cwd(), 'none.gguf')}.`,
    ],
    ['FROM svc-mini\nTEMPLATE chatml', 2, 'line 1: The built-in model keeps its template'],
  ];
  for (const [modelfile, code, message] of cases) {
    const failed = await create(modelfile);
    assert.is(failed.code, code, failed.stderr);
    assert.ok(failed.stderr.replace(/\s+/g, ' ').includes(message), failed.stderr);
  }
  for (const [args, message] of [
    [['--file', join(folder, 'none')], 'cannot be read: there is no such file (ENOENT)'],
    [['--file', folder], 'cannot be read: it is a folder'],
    [[], 'Modelfile cannot be read'],
  ] as const) {
    const failed = await home.svc(['model', 'create', 'x', ...args]);
    assert.is(failed.code, 2);
    assert.match(failed.stderr, message);
  }
  writeFileSync(join(folder, 'Modelfile'), 'FROM base\n');
  const taken = await home.svc(['model', 'create', 'base', '--file', join(folder, 'Modelfile')]);
  assert.match(taken.stderr, 'There is a model base already. Choose another name.');
  assert.is((await home.svc(['model', 'alias'])).stdout, '');
});

test.run();
