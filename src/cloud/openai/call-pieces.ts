import type { Opaque } from '../../contract/messages/parts.ts';
import { type Call, type ToolCalls, unassignedPieceError } from '../remote/calls.ts';
import type { Pieces } from '../remote/pieces.ts';

/** One piece of a tool call, as a server sends it. A field that it leaves out is empty or null. */
export interface CallPiece {
  index: number | null;
  id: string;
  name: string;
  text: string;
  /** Data that the server must get back with the call. */
  opaque?: Opaque | undefined;
}

/** A call that has begun. */
interface Begun {
  call: Call;
  /** As the server sends it. */
  name: string;
  arguments: JsonEnd;
}

/**
 * Assigns the pieces of tool calls to their calls. Servers agree on little:
 *
 * 1. Id and index say which call a piece continues, and a name must be that of the call. Whole
 *    calls may all have one index.
 * 2. A piece with a name begins a call, unless a call that is not complete fits it.
 * 3. A piece with neither id nor index continues the only call, or the only incomplete one.
 * 4. An index without a name waits for its name. At the end it continues the only call that is
 *    not complete. Some servers number the head of a call and its tail differently.
 * 5. A text that fits no call, or several, fails the answer: it would be lost.
 */
export class CallPieces {
  private readonly calls: ToolCalls;
  private readonly pieces: Pieces;
  private readonly begun: Begun[] = [];
  private readonly byId = new Map<string, Begun[]>();
  private readonly byIndex = new Map<number, Begun[]>();
  /** Pieces without a name so far, by their index. */
  private readonly nameless = new Map<number, CallPiece>();

  constructor(calls: ToolCalls, pieces: Pieces) {
    this.calls = calls;
    this.pieces = pieces;
  }

  /** Throws stream_garbled. */
  take(sent: CallPiece): void {
    const piece = this.withName(sent);
    if (piece === null) return;
    const found = this.find(piece);
    if (found === 'none' && piece.text.trim() !== '') throw unassignedPieceError();
    if (found === 'none') return;
    const { index, id, name, text, opaque } = piece;
    const begun = found ?? this.begin(id, name, opaque);
    if (found !== null && opaque !== undefined) this.calls.addOpaque(found.call, opaque);
    if (id !== '' && !this.byId.has(id)) this.pieces.count(id);
    if (id !== '') note(this.byId, id, begun);
    if (index !== null) note(this.byIndex, index, begun);
    if (text === '') return;
    begun.arguments.take(text);
    this.calls.add(begun.call, text);
  }

  /** Throws stream_garbled for a call without a name. */
  end(): void {
    for (const { id, text } of this.nameless.values()) {
      const [call, ...others] = this.begun.filter((begun) => !begun.arguments.isComplete);
      if (call === undefined || others.length > 0 || id !== '') throw unassignedPieceError();
      call.arguments.take(text);
      if (!call.arguments.isComplete) throw unassignedPieceError();
      this.calls.add(call.call, text);
    }
  }

  /** The piece, with all that came before its name. Null: the name has not come. */
  private withName(piece: CallPiece): CallPiece | null {
    const { index, id, name, text, opaque } = piece;
    if (index === null || this.byIndex.has(index) || this.byId.has(id)) return piece;
    const before = this.nameless.get(index);
    if (before === undefined && name !== '') return piece;
    const all = {
      index,
      id: before?.id || id,
      name,
      text: (before?.text ?? '') + text,
      opaque: before?.opaque ?? opaque,
    };
    if (name !== '') this.nameless.delete(index);
    else {
      this.pieces.count(text, PIECE_BYTES);
      this.nameless.set(index, all);
    }
    return name === '' ? null : all;
  }

  /** The call that a piece continues. Null: it begins one. */
  private find({ index, id, name, text }: CallPiece): Begun | null | 'none' {
    const isNamed = name !== '';
    const isWhole = isNamed && /^\s*[[{]/.test(text);
    const ofId = this.byId.get(id);
    const fitting = this.findFitting(index, ofId, isNamed, id !== '').filter(
      (begun) => !isNamed || begun.name === name,
    );
    const open = fitting.filter((begun) => !begun.arguments.isComplete);
    const isUnseen = id !== '' && ofId === undefined;
    if (fitting.length === 0 || (isUnseen && isWhole)) return isNamed ? null : 'none';
    if (fitting.length === 1 && !isWhole && !(isUnseen && isNamed && text.trim() === ''))
      return fitting[0] ?? null;
    if (open.length === 1) return open[0] ?? null;
    return open.length === 0 && isNamed ? null : 'none';
  }

  /** The calls with the id and index of a piece, as far as it has them. */
  private findFitting(
    index: number | null,
    ofId: readonly Begun[] | undefined,
    isNamed: boolean,
    hasId: boolean,
  ): readonly Begun[] {
    const ofIndex = index === null ? undefined : (this.byIndex.get(index) ?? []);
    if (ofId !== undefined && ofIndex !== undefined)
      return ofIndex.length === 0 && !isNamed
        ? ofId
        : ofId.filter((begun) => ofIndex.includes(begun));
    return ofId ?? ofIndex ?? (hasId || isNamed ? [] : this.begun);
  }

  private begin(id: string, name: string, opaque?: Opaque): Begun {
    const begun = { call: this.calls.begin(id, name, opaque), name, arguments: new JsonEnd() };
    this.begun.push(begun);
    return begun;
  }
}

/** A piece that waits for its name, about. */
const PIECE_BYTES = 64;

function note<K>(map: Map<K, Begun[]>, key: K, begun: Begun): void {
  const known = map.get(key);
  if (known === undefined) map.set(key, [begun]);
  else if (!known.includes(begun)) known.push(begun);
}

/** Notices where an object or list ends that arrives in pieces. */
class JsonEnd {
  isComplete = false;
  private depth = 0;
  private isQuoted = false;
  private isEscaped = false;

  take(text: string): void {
    for (let at = 0; at < text.length && !this.isComplete; at += 1) {
      const character = text[at];
      if (this.isEscaped) this.isEscaped = false;
      else if (this.isQuoted) {
        this.isEscaped = character === '\\';
        this.isQuoted = character !== '"';
      } else if (character === '"') this.isQuoted = true;
      else if (character === '{' || character === '[') this.depth += 1;
      else if (character === '}' || character === ']') {
        this.depth -= 1;
        this.isComplete = this.depth <= 0;
      }
    }
  }
}
