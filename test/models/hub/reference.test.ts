import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { SvcError } from '../../../src/errors.ts';
import { modelNameOf, readModelName } from '../../../src/models/file-name.ts';
import { parseReference, shownReference } from '../../../src/models/hub/reference.ts';
import { readTask } from '../../../src/models/task.ts';

const HUB = new URL('https://hub.example');
const shown = (text: string) => shownReference(parseReference(text, HUB));

test('every form of a reference is read as what it says', () => {
  const forms: [string, object][] = [
    ['hf:user/repo', { repo: 'user/repo', revision: 'main', quant: null, path: null }],
    ['hf:user/repo:Q4_K_M', { repo: 'user/repo', revision: 'main', quant: 'Q4_K_M', path: null }],
    [
      'hf:user/repo.v2-GGUF:iq2_xs@v1.0',
      { repo: 'user/repo.v2-GGUF', revision: 'v1.0', quant: 'iq2_xs', path: null },
    ],
    [
      'hf:user/repo/file.gguf',
      { repo: 'user/repo', revision: 'main', quant: null, path: 'file.gguf' },
    ],
    [
      'hf:user/repo/sub/dir/file.GGUF@refs/pr/3',
      { repo: 'user/repo', revision: 'refs/pr/3', quant: null, path: 'sub/dir/file.GGUF' },
    ],
    [
      'https://hub.example/user/repo',
      { repo: 'user/repo', revision: 'main', quant: null, path: null },
    ],
    [
      'https://hub.example/user/repo/tree/v2',
      { repo: 'user/repo', revision: 'v2', quant: null, path: null },
    ],
    [
      'https://hub.example/user/repo/blob/main/sub/a%20b.gguf?download=true',
      { repo: 'user/repo', revision: 'main', quant: null, path: 'sub/a b.gguf' },
    ],
    [
      'https://hub.example/user/repo/resolve/refs%2Fpr%2F1/a.gguf',
      { repo: 'user/repo', revision: 'refs/pr/1', quant: null, path: 'a.gguf' },
    ],
  ];
  for (const [text, expected] of forms)
    assert.equal(parseReference(text, HUB), { kind: 'hub', ...expected }, text);
});

test('a URL keeps all but its fragment, and is shown without its query', () => {
  const reference = parseReference('https://example.org/a/b.gguf?token=secret#x', HUB);
  assert.is(
    reference.kind === 'url' && reference.url.href,
    'https://example.org/a/b.gguf?token=secret',
  );
  assert.is(shownReference(reference), 'https://example.org/a/b.gguf');
  assert.is(parseReference('http://127.0.0.1:8080/b.gguf', HUB).kind, 'url');
  assert.is(parseReference('http://[::1]:8080/b.gguf', HUB).kind, 'url');
});

test('a reference is shown in the form in which it can be given again', () => {
  for (const text of ['hf:user/repo', 'hf:user/repo:Q8_0@v1', 'hf:user/repo/a/b.gguf@v1'])
    assert.is(shown(text), text);
});

const WRONG = [
  '',
  'hf:',
  'hf:repo',
  'hf:/repo',
  'hf:user/',
  'hf:user/repo:',
  'hf:user/repo@',
  'hf:user/repo:Q4:Q5',
  'hf:user/repo/file.gguf:Q4',
  'hf:user/repo/file.bin',
  'hf:user/repo/',
  'hf:user/repo//a.gguf',
  'hf:user/repo/../x.gguf',
  'hf:user/repo/a/../x.gguf',
  'hf:../repo',
  'hf:user/..',
  'hf:user/re po',
  'hf:user/repo@../main',
  'hf:user/repo@a b',
  'hf:user/repo/a\\b.gguf',
  'hf:user/repo/a\u0000.gguf',
  'user/repo',
  'ftp://example.org/a.gguf',
  'file:///etc/passwd',
  'http://example.org/a.gguf',
  'http://127.0.0.1.example.org/a.gguf',
  'http://localhost@example.org/a.gguf',
  'https://user:sesame@example.org/a.gguf',
  'https://',
  'https:///a.gguf',
  `https://example.org/${'a'.repeat(5000)}.gguf`,
];

test('what is no reference is refused as invalid_request, and the parameter is named', () => {
  for (const text of WRONG) {
    try {
      const reference = parseReference(text, HUB);
      // An address with an empty host is read by the platform as one whose host is its first part.
      assert.ok(text === 'https:///a.gguf' && reference.kind === 'url', `${text} was taken`);
    } catch (error) {
      assert.is((error as SvcError).code, 'invalid_request', text);
      assert.is((error as SvcError).param, 'reference', text);
      assert.not.ok((error as SvcError).message.includes('sesame'), text);
    }
  }
});

test('a name of the user is taken only if it is one', () => {
  for (const name of ['tiny', 'Tiny-1.5b_Q4', 'a'.repeat(128)])
    assert.is(readModelName(name), name);
  assert.is(readModelName('tiny.gguf'), 'tiny');
  for (const name of [
    '',
    '.',
    '..',
    '../x',
    'a/b',
    'a\\b',
    '.hidden',
    '-rf',
    'a b',
    'con',
    'NUL.txt',
    'a\u0000',
    'ä',
    'x.',
    'a'.repeat(129),
    '.gguf',
  ]) {
    assert.throws(
      () => readModelName(name),
      (error: SvcError) => error.code === 'invalid_request' && error.param === 'name',
      name,
    );
  }
});

test('a foreign file name becomes a safe name, or none', () => {
  const names: [string, string | null][] = [
    ['a/b/Model-Q4_K_M.gguf', 'Model-Q4_K_M'],
    ['../../etc/passwd.gguf', 'passwd'],
    ['..\\..\\evil.gguf', 'evil'],
    ['.hidden.GGUF', 'hidden'],
    ['a b\nc.gguf', 'a-b-c'],
    ['--help.gguf', 'help'],
    ['con.gguf', null],
    ['….gguf', null],
    ['.gguf', null],
    ['', null],
  ];
  for (const [path, name] of names) assert.is(modelNameOf(path), name, path);
  assert.ok((modelNameOf(`${'x'.repeat(500)}.gguf`) ?? '').length <= 128);
});

test('two requests are the same only if they ask for the same under the same name', () => {
  const key = (reference: string, name: string | null = null, sha256: string | null = null) =>
    readTask({ reference, name, sha256 }, {}).key;
  assert.is(key('hf:a/b'), key(' hf:a/b '));
  assert.is(key('hf:a/b'), key('https://huggingface.co/a/b'));
  assert.is.not(key('hf:a/b'), key('hf:a/b', 'c'));
  assert.is.not(key('https://x.org/d.gguf?id=1'), key('https://x.org/d.gguf?id=2'));
  assert.is.not(key('hf:a/b'), key('hf:a/b', null, 'a'.repeat(64)));
});

test('an address without the ending needs a name, a hash has 64 digits, and a hub is an https address', () => {
  const code = (input: { reference: string; name?: string; sha256?: string }, env = {}) => {
    try {
      readTask({ name: null, sha256: null, ...input }, env);
      return null;
    } catch (error) {
      return `${(error as SvcError).code} ${(error as SvcError).param}`;
    }
  };
  assert.is(code({ reference: 'https://x.org/download?id=3' }), 'invalid_request reference');
  assert.is(code({ reference: 'https://x.org/download?id=3', name: 'x' }), null);
  assert.is(code({ reference: 'https://x.org/.gguf' }), 'invalid_request name');
  assert.is(code({ reference: 'hf:a/b', sha256: 'abc' }), 'invalid_request sha256');
  assert.is(code({ reference: 'hf:a/b', sha256: `sha256:${'A'.repeat(64)}` }), null);
  for (const HF_ENDPOINT of [
    'http://example.org',
    'nonsense',
    'https://u:p@example.org',
    'file:///x',
  ])
    assert.is(code({ reference: 'hf:a/b' }, { HF_ENDPOINT }), 'config_invalid HF_ENDPOINT');
  for (const HF_ENDPOINT of ['', 'http://127.0.0.1:1', 'https://mirror.example/hf/'])
    assert.is(code({ reference: 'hf:a/b' }, { HF_ENDPOINT }), null);
});

test.run();
