import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { GENERIC } from '../../../src/answer-forms/calls.ts';
import { namedCalls, type ThoughtRow } from '../../../src/answer-forms/form.ts';
import { NAME } from '../../../src/answer-forms/pattern.ts';
import { TAGS } from '../../../src/answer-forms/thoughts.ts';
import { type OutputPart, type Piece, partsAfter } from '../../../src/contract/messages/parts.ts';
import { Delivery } from '../../../src/engine/reader/answer.ts';
import { type AnswerForm, Reader } from '../../../src/engine/reader/reader.ts';
import { SvcError } from '../../../src/errors.ts';

const tool = (name: string) => ({ name, description: null, parameters: {} });
const calls: NonNullable<AnswerForm['calls']> = {
  rows: [GENERIC],
  tools: [tool('sum'), tool('weather')],
  several: true,
  id: (index) => `call_${index}`,
};
const PLAIN: AnswerForm = { stop: [], thoughts: null, isReasoning: false, calls: null };
const ALL: AnswerForm = { ...PLAIN, stop: ['END', '\n\nUser:'], thoughts: TAGS, calls };

interface Read {
  parts: readonly OutputPart[];
  text: string;
  pieces: Piece[];
  ended: Reader['ended'];
}

/** Reads texts. The letters of a list are of a control token. */
function read(form: AnswerForm, said: readonly (string | [string])[]): Read {
  const reader = new Reader(form);
  const pieces: Piece[] = [];
  for (const each of said)
    pieces.push(...(typeof each === 'string' ? reader.push(each) : reader.push(each[0], true)));
  pieces.push(...reader.end());
  return { ...joined(pieces), pieces, ended: reader.ended };
}

function joined(pieces: readonly Piece[]): { parts: readonly OutputPart[]; text: string } {
  let [text, parts]: [string, readonly OutputPart[]] = ['', []];
  for (const piece of pieces) {
    parts = partsAfter(parts, text, piece);
    if (piece.kind === undefined) text += piece.text;
  }
  return { text, parts };
}

/** Reads a text in pieces of each length. They say the same. */
function readEachWay(form: AnswerForm, said: string): Read {
  const whole = read(form, [said]);
  for (let length = 1; length < said.length; length += 1) {
    const cut = Array.from({ length: Math.ceil(said.length / length) }, (_, index) =>
      said.slice(index * length, (index + 1) * length),
    );
    const { parts, text, ended } = read(form, cut);
    assert.equal(
      { parts, text, ended },
      { parts: whole.parts, text: whole.text, ended: whole.ended },
    );
  }
  return whole;
}

const CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "a } \\" b"}}\n</tool_call>';
const CITY = '{"city": "a } \\" b"}';

test('without marks, text passes as it is', () => {
  assert.equal(read(PLAIN, ['<think>', ' END ']).pieces, [{ text: '<think>' }, { text: ' END ' }]);
});

test('an answer ends before the first stop text, wherever it is cut', () => {
  const { text, ended } = readEachWay(ALL, 'One EN two\n\nUse\n\nUser: END');
  assert.equal([text, ended], ['One EN two\n\nUse', { reason: 'stop', text: '\n\nUser:' }]);
});

test('of two stop texts the one that is complete first counts, then the longer one', () => {
  const form = { ...PLAIN, stop: ['abcdef', 'cd'] };
  assert.equal(readEachWay(form, 'xabcdefg').text, 'xab');
  assert.equal(readEachWay({ ...PLAIN, stop: ['cd', 'bcd'] }, 'abcde').text, 'a');
});

test('text that only begins like a stop text is delivered', () => {
  const { text, ended } = readEachWay(ALL, 'THE EN');
  assert.equal([text, ended], ['THE EN', null]);
});

test('text that may become a stop text waits, and no more than that', () => {
  const reader = new Reader({ ...PLAIN, stop: ['STOP'] });
  assert.equal(reader.push('a ST'), [{ text: 'a ' }]);
  assert.equal(reader.push('ART'), [{ text: 'START' }]);
});

test('reasoning is a separate part, without its tags', () => {
  const { parts } = readEachWay(ALL, '<think>\nLet me END.\n\n</think>\n\nYes.');
  assert.equal(parts, [
    { type: 'reasoning', text: 'Let me END.' },
    { type: 'text', text: 'Yes.' },
  ]);
});

test('white space of a mark may be more or missing, and begins in no word', () => {
  const reasoning = { begun: '', open: ['<|think on|>'], close: [['</think>']], closing: '' };
  const form = { ...ALL, thoughts: { ...TAGS, reasoning } satisfies ThoughtRow };
  const partsOf = (open: string) => readEachWay(form, `${open}Hm.</think>`).parts;
  for (const open of ['<|think on|>', '< | think\n on |>', '<|thinkon|>'])
    assert.equal(partsOf(open), [{ type: 'reasoning', text: 'Hm.' }], open);
  assert.equal(partsOf('<|th ink on|>'), [], 'a text has no parts');
});

test('a tag inside of text is text', () => {
  assert.is(readEachWay(ALL, 'The tag <think> opens.').text, 'The tag <think> opens.');
});

test('an answer may begin inside its reasoning', () => {
  const form = { ...ALL, isReasoning: true };
  assert.equal(readEachWay(form, '\nHm.\n</think>\n\nYes.').parts, [
    { type: 'reasoning', text: 'Hm.' },
    { type: 'text', text: 'Yes.' },
  ]);
  assert.equal(readEachWay(form, 'Hm').parts, [{ type: 'reasoning', text: 'Hm' }]);
});

test('a tool call is a part with its id, name and arguments', () => {
  const { parts, ended } = readEachWay(ALL, `Let me see.\n${CALL}`);
  assert.equal(parts, [
    { type: 'text', text: 'Let me see.' },
    { type: 'tool_call', id: 'call_0', name: 'weather', arguments: CITY },
  ]);
  assert.is(ended, null);
});

test('several calls have ids in order, and white space does not count', () => {
  const loose = '<tool_call>{ "name" : "sum","arguments":  [1, 2] }</tool_call>';
  const { parts } = readEachWay(ALL, `${CALL}\n${loose} Done.`);
  assert.equal(parts, [
    { type: 'tool_call', id: 'call_0', name: 'weather', arguments: CITY },
    { type: 'tool_call', id: 'call_1', name: 'sum', arguments: '[1, 2]' },
    { type: 'text', text: 'Done.' },
  ]);
});

test('without calls in a row the first call ends the answer', () => {
  const form = { ...ALL, calls: { ...calls, several: false } };
  const { parts, ended } = readEachWay(form, `${CALL} and more`);
  assert.equal(parts, [{ type: 'tool_call', id: 'call_0', name: 'weather', arguments: CITY }]);
  assert.equal(ended, { reason: 'calls' });
});

test('a call of an unknown tool is text', () => {
  const said = CALL.replace('weather', 'shell');
  assert.is(readEachWay(ALL, said).text, said);
});

test('a call that is cut off keeps its arguments so far', () => {
  const { parts } = readEachWay(ALL, CALL.slice(0, CALL.indexOf(': "a')));
  assert.equal(parts, [{ type: 'tool_call', id: 'call_0', name: 'weather', arguments: '{"city"' }]);
});

test('a call without arguments has an empty object', () => {
  const head = ['[', NAME, ']('] as const;
  const row = namedCalls({ families: '', marks: [], open: head, head, close: ')' });
  const form = { ...PLAIN, calls: { ...calls, rows: [row], tools: [tool('now')] } };
  assert.equal(readEachWay(form, '[now]() Good.').parts, [
    { type: 'tool_call', id: 'call_0', name: 'now', arguments: '{}' },
    { type: 'text', text: 'Good.' },
  ]);
});

test('the text of control tokens makes marks, and is never delivered', () => {
  const said = CALL.slice('<tool_call>'.length);
  const { parts } = read(ALL, ['Hm', ['<tool_call>'], said]);
  assert.equal(parts, [
    { type: 'text', text: 'Hm' },
    { type: 'tool_call', id: 'call_0', name: 'weather', arguments: CITY },
  ]);
  assert.is(read(ALL, ['a', ['<tool_call>'], 'b']).text, 'ab');
});

test('an answer that is read again is delivered once, from wherever it was cut', () => {
  const said = `<think>\nHm.</think>\nText 1\n${CALL}\n${CALL}\nText 2`;
  const letters = Array.from(said);
  const whole = read(ALL, letters);
  const each = whole.pieces.flatMap((piece) =>
    piece.text === '' ? [piece] : Array.from(piece.text, (text) => ({ ...piece, text })),
  );
  assert.ok(each.length > 50);
  for (let cut = 0; cut <= each.length; cut += 1) {
    const before = each.slice(0, cut);
    const delivery = new Delivery(joined(before));
    const after = whole.pieces.flatMap((piece) => delivery.next(piece) ?? []);
    assert.equal(joined([...before, ...after]), joined(whole.pieces), `cut after ${cut}`);
    const again = joined(after);
    const length = (text: string, parts: readonly OutputPart[]) =>
      parts.length === 0 ? text.length : JSON.stringify(parts).length;
    if (cut === each.length) assert.is(length(again.text, again.parts), 0);
  }
});

test('an answer that differs from what was delivered is refused', () => {
  const refused = (delivered: ConstructorParameters<typeof Delivery>[0], piece: Piece) => {
    const delivery = new Delivery(delivered);
    assert.throws(
      () => delivery.next(piece),
      (error: unknown) => error instanceof SvcError && error.code === 'resume_failed',
    );
  };
  refused({ text: 'abc', parts: [] }, { text: 'abd' });
  refused({ text: 'abc', parts: [] }, { text: 'a', kind: 'reasoning' });
  const part = { type: 'tool_call', id: 'call_0', name: 'sum', arguments: '{' } as const;
  refused(
    { text: '', parts: [part] },
    { text: '{', kind: 'tool_call', call: { id: 'call_1', name: 'sum' } },
  );
});

test.run();
