/** What of a turn matters here. */
interface CallingTurn {
  readonly role: string;
  readonly content: unknown;
  readonly tool_calls?: readonly { id: string }[];
  readonly tool_call_id?: string;
}

/**
 * The same conversation with one call in a turn, for templates that know no parallel calls. Each
 * call is followed by its result.
 */
export function splitCalls<T extends CallingTurn>(turns: readonly T[]): T[] {
  return turns.flatMap((turn, at) => {
    const { tool_calls: calls = [] } = turn;
    if (turn.role === 'tool' && (callsBefore(turns, at)?.length ?? 0) > 1) return [];
    if (calls.length < 2) return [turn];
    const results = turns.slice(at + 1, endOfResults(turns, at + 1));
    const known = new Set(calls.map(({ id }) => id));
    return calls.flatMap((call, index) => [
      { ...(index === 0 ? turn : emptyTurn(turn)), tool_calls: [call] },
      ...results.filter(({ tool_call_id: id = '' }) =>
        known.has(id) ? id === call.id : index === calls.length - 1,
      ),
    ]);
  });
}

/** Its text and its reasoning come before the first call. */
function emptyTurn<T extends CallingTurn>({ role }: T): T {
  return { role, content: '' } as unknown as T;
}

/** The calls whose results are there. */
function callsBefore(turns: readonly CallingTurn[], at: number): CallingTurn['tool_calls'] {
  return turns.slice(0, at).findLast(({ role }) => role !== 'tool')?.tool_calls;
}

function endOfResults(turns: readonly CallingTurn[], from: number): number {
  const end = turns.findIndex(({ role }, at) => at >= from && role !== 'tool');
  return end < 0 ? turns.length : end;
}
