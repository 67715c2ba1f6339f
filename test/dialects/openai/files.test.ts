import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { lineOf, pdfOf } from '../../helpers/pdf.ts';
import { finish, output } from '../../helpers/scripted-provider.ts';
import { bootReal, type Real } from '../../transport/http/real.ts';

const test = suite<{ real: Real }>('files of a chat');

test.before.each(async (context) => {
  context.real = await bootReal({ script: [output('Read.', 1), finish()] });
});
test.after.each(({ real }) => real.close());

const send = (real: Real, file: object) =>
  real.get('/v1/chat/completions', {
    method: 'POST',
    body: { messages: [{ role: 'user', content: [{ type: 'file', file }] }] },
  });
const dataOf = (type: string, bytes: Buffer) => `data:${type};base64,${bytes.toString('base64')}`;

test('a PDF and a text reach the model as text, with their names', async ({ real }) => {
  const pdf = dataOf('application/pdf', pdfOf([lineOf('On the page.')]));
  assert.is((await send(real, { filename: 'a.pdf', file_data: pdf })).status, 200);
  const plain = dataOf('text/plain', Buffer.from('Plain.'));
  assert.is((await send(real, { file_data: plain })).status, 200);
  assert.equal(
    real.provider.asked.map(({ request }) => request.messages[0]?.content),
    [
      [{ type: 'text', text: '<document title="a.pdf">\nOn the page.\n</document>' }],
      [{ type: 'text', text: '<document>\nPlain.\n</document>' }],
    ],
  );
});

test('a file that is not in the request, or has no text, is refused by name', async ({ real }) => {
  const at = 'messages.0.content.0.file';
  const cases: [object, string][] = [
    [{ file_id: 'file-1' }, 'file'],
    [{ file_data: 'https://x/y.pdf' }, `${at}.file_data must be a data URL`],
    [{ file_data: dataOf('application/pdf', Buffer.from('x')) }, `${at}.file_data is no PDF file`],
    [{ file_data: dataOf('audio/wav', Buffer.from('x')) }, 'PDF and text are read'],
  ];
  for (const [file, message] of cases) {
    const { status, json } = await send(real, file);
    assert.is(status, 400);
    assert.match(json.error.message, message);
  }
  assert.is(real.provider.asked.length, 0);
});

test.run();
