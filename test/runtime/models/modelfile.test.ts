import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SvcError } from '../../../src/errors.ts';
import { MODELFILE_BYTES_MAX, MODELFILE_LINES_MAX } from '../../../src/limits.ts';
import {
  isGoTemplate,
  readModelfile,
  writeModelfile,
} from '../../../src/runtime/models/modelfile.ts';

/** A Modelfile of Ollama, in the words of svc. */

const WHOLE = `# Mario
FROM qwen3:0.6b
adapter ./style.gguf
ADAPTER "/abs/my terms.gguf"
TEMPLATE """{% for m in messages %}
{{ m.content }}
{% endfor %}"""
PARAMETER temperature 0.25
PARAMETER num_ctx 8192
parameter num_predict -1
PARAMETER presence_penalty 1.5
PARAMETER stop "<|im_end|>"
PARAMETER stop "User:"
PARAMETER top_n_sigma 1
SYSTEM """
You are "Mario".
# no comment
"""
MESSAGE user Is Toronto in Canada?
MESSAGE assistant yes
LICENSE """MIT"""
LICENSE Apache
`;

test('every instruction becomes a field of svc, and its quotes are left out', () => {
  const { from, preset, lines } = readModelfile(WHOLE);
  assert.is(from, 'qwen3:0.6b');
  assert.equal(preset, {
    adapters: ['./style.gguf', '/abs/my terms.gguf'],
    chat_template: '{% for m in messages %}\n{{ m.content }}\n{% endfor %}',
    temperature: 0.25,
    context_tokens: 8192,
    max_tokens: 1_048_576,
    presence_penalty: 1.5,
    stop: ['<|im_end|>', 'User:'],
    top_n_sigma: 1,
    system: '\nYou are "Mario".\n# no comment\n',
    messages: [
      { role: 'user', text: 'Is Toronto in Canada?' },
      { role: 'assistant', text: 'yes' },
    ],
    licence: 'MIT\n\nApache',
  });
  assert.equal(
    ['FROM', 'ADAPTER', 'TEMPLATE', 'SYSTEM', 'LICENSE'].map((name) => lines.get(name)),
    [2, 3, 5, 15, 21],
  );
});

test('a file of Windows, and quotes over several lines, are read alike', () => {
  const { from, preset } = readModelfile('\uFEFFFROM a\r\nSYSTEM "one\r\ntwo"  \r\n');
  assert.equal([from, preset.system], ['a', 'one\ntwo']);
  assert.is(readModelfile('FROM ./my model.gguf').from, './my model.gguf');
  assert.is(readModelfile('FROM a\nSYSTEM say "hi"').preset.system, 'say "hi"');
});

test('what is written makes the same model again', () => {
  const { from, preset } = readModelfile(WHOLE);
  const text = writeModelfile(from, preset);
  assert.match(text, /^FROM qwen3:0\.6b\nADAPTER "\.\/style\.gguf"\n/);
  assert.match(text, '\nPARAMETER num_ctx 8192\n');
  assert.match(text, '\nPARAMETER stop "User:"\n');
  assert.equal(readModelfile(text).preset, preset);
  const odd = {
    system: 'a """\nb',
    stop: ['\n'],
    messages: [{ role: 'user', text: '"' }],
  } as const;
  const written = writeModelfile('a', odd);
  assert.match(written, '# SYSTEM is left out: a Modelfile has no form for its text.');
  const { system: _, ...rest } = odd;
  assert.equal(readModelfile(written).preset, rest);
});

test('every mistake names its line', () => {
  const refused: [file: string, message: RegExp][] = [
    ['', /^Modelfile: FROM is missing\.$/],
    ['SYSTEM x', /^Modelfile: FROM is missing/],
    ['FROM a\nFROM b', /line 2: FROM is there twice: the first one is in line 1/],
    ['FROM a\n\nSYSTEM x\nSYSTEM y', /line 4: SYSTEM is there twice: the first one is in line 3/],
    ['FROM a\nPARSER qwen', /line 2: svc has no instruction "PARSER"\. There are FROM, SYSTEM, /],
    ['FROM a\nhello', /line 2: svc has no instruction "hello"/],
    ['FROM', /line 1: FROM says nothing/],
    ['FROM a\nSYSTEM ""', /line 2: SYSTEM says nothing/],
    ['FROM a\n# x\nSYSTEM """one\ntwo', /line 3: the quotes after SYSTEM are not closed/],
    [
      'FROM a\nPARAMETER mirostat 1',
      /line 2: svc has no parameter "mirostat"\. There are stop, num_/,
    ],
    ['FROM a\nPARAMETER toString 1', /line 2: svc has no parameter "toString"/],
    [
      'FROM a\nPARAMETER temperature 9',
      /line 2: PARAMETER temperature must be a number from 0 to 2/,
    ],
    ['FROM a\nPARAMETER temperature', /line 2: PARAMETER temperature must be a number from 0 to 2/],
    ['FROM a\nPARAMETER top_k 1.5', /line 2: PARAMETER top_k must be a whole number from 0 to/],
    ['FROM a\nPARAMETER seed x', /line 2: PARAMETER seed must be a whole number/],
    ['FROM a\nPARAMETER seed 1\nPARAMETER seed 2', /line 3: PARAMETER seed is there twice/],
    ['FROM a\nPARAMETER stop ""', /line 2: stop is a text, and at most 16/],
    [
      'FROM a\nMESSAGE tool x',
      /line 2: MESSAGE needs a role and a text\. Roles are system, user, a/,
    ],
    ['FROM a\nMESSAGE user', /line 2: MESSAGE needs a role and a text/],
    ['FROM a\nTEMPLATE """{{ if .System }}x{{ end }}"""', /line 2: TEMPLATE is a template of Go/],
    [
      `FROM a\n${'#\n'.repeat(MODELFILE_LINES_MAX)}`,
      /Modelfile: it has 10002 lines; at most 10000/,
    ],
    [
      `FROM a\n#${'x'.repeat(MODELFILE_BYTES_MAX)}`,
      /Modelfile: it has 262152 bytes; at most 262144/,
    ],
    [`FROM a\n${'PARAMETER stop x\n'.repeat(17)}`, /line 18: stop is a text, and at most 16/],
    [`FROM a\n${'MESSAGE user x\n'.repeat(257)}`, /line 258: at most 256 messages are kept/],
  ];
  for (const [file, message] of refused) {
    try {
      readModelfile(file);
      assert.unreachable(file.slice(0, 80));
    } catch (error) {
      assert.instance(error, SvcError);
      const { code, param, message: said } = error as SvcError;
      assert.equal([code, param], ['invalid_request', 'modelfile']);
      assert.match(said, message);
    }
  }
});

test('a template of Go is not one in Jinja', () => {
  for (const text of ['{{ .Prompt }}', '{{- range .Messages }}', 'a{{ end }}', '{{ $x := 1 }}'])
    assert.ok(isGoTemplate(text), text);
  for (const text of ['chatml', '{{ message.content }}', '{% if a %}{{ end_token }}{% endif %}'])
    assert.not.ok(isGoTemplate(text), text);
});

test.run();
