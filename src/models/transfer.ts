import { pullError } from './failure.ts';
import { type Answer, type HubClient, wholeNumber } from './hub/client.ts';
import { shownAddress } from './hub/reference.ts';
import { refusal } from './hub/refusal.ts';
import type { Source } from './hub/source.ts';
import type { Identity, PartialFile } from './partial-file.ts';
import type { Claim } from './ranges.ts';

/** The response with the rest of the file. */
export interface Transfer {
  answer: Answer;
  identity: Identity;
  revision: string | null;
}

/**
 * Requests the missing bytes.
 *
 * 1. Without a partial file: the whole file.
 * 2. With one: the rest, on the condition that the file is unchanged.
 * 3. If the server sends the whole file, because it changed or because ranges are unsupported: from
 *    the start.
 * 4. If the range does not continue the partial file: the whole file in a second request.
 */
export async function openTransfer(
  source: Source,
  partial: PartialFile,
  hubClient: HubClient,
  signal: AbortSignal,
): Promise<Transfer> {
  const answer = await hubClient.get({
    url: source.url,
    hub: source.hub,
    signal,
    headers: conditions(source, partial),
  });
  try {
    if (
      partial.bytes > 0 &&
      (answer.status === 416 || (answer.status === 206 && !isContinuation(answer, source, partial)))
    ) {
      await answer.body?.cancel();
      partial.startOver();
      return await openTransfer(source, partial, hubClient, signal);
    }
    return acceptAnswer(source, partial, answer);
  } catch (thrown) {
    await answer.body?.cancel().catch(() => undefined);
    throw thrown;
  }
}

function conditions(source: Source, partial: PartialFile): Record<string, string> {
  if (partial.bytes === 0) return {};
  const etag = validator(source, partial);
  return { range: `bytes=${partial.offset}-`, ...(etag === null ? {} : { 'if-range': etag }) };
}

/** The ETag that this URL gave for the partial file. Null for a mirror. */
function validator(source: Source, { identity }: PartialFile): string | null {
  return identity !== null && identity.url === shownAddress(source.url) ? identity.etag : null;
}

/** Whether the response continues the partial file, and is of the same file. */
function isContinuation({ headers }: Answer, source: Source, partial: PartialFile): boolean {
  const [, from = '', total = ''] =
    /^bytes (\d{1,15})-\d{1,15}\/(\d{1,15}|\*)$/.exec(headers.get('content-range') ?? '') ?? [];
  const size = source.size_bytes ?? partial.identity?.size_bytes ?? null;
  if (from !== String(partial.offset) || (size !== null && total !== '*' && Number(total) !== size))
    return false;
  const [before, now] = [validator(source, partial), strongEtag(headers)];
  return before === null || now === null || before === now;
}

function acceptAnswer(source: Source, partial: PartialFile, answer: Answer): Transfer {
  const { status, headers, host, hubMetadata } = answer;
  const what = source.file;
  if (status !== 200 && !(status === 206 && partial.bytes > 0))
    throw refusal(answer, what, source.hub?.host ?? null);
  if (status === 200) partial.startOver();
  if (/^text\/html/i.test(headers.get('content-type') ?? ''))
    throw pullError('pull_failed', `${host} sends a web page, not a model.`, {
      retryable: false,
      hint:
        'Open the address in a browser: it may ask for a login, or name another address for ' +
        'the file.',
    });
  if (!/^(identity)?$/i.test(headers.get('content-encoding') ?? ''))
    throw pullError(
      'pull_failed',
      `${host} sends the file compressed: it can be neither resumed nor checked.`,
    );
  if (
    source.sha256 !== null &&
    hubMetadata.sha256 !== null &&
    hubMetadata.sha256 !== source.sha256
  ) {
    throw pullError(
      'pull_failed',
      `${what} changed on ${source.hub?.host ?? host} during the request.`,
      { retryable: true },
    );
  }
  const size = sizeOfAnswer(answer, partial.offset);
  const wanted = source.size_bytes ?? hubMetadata.size_bytes;
  if (size !== null && wanted !== null && size !== wanted) {
    throw pullError('pull_failed', `${host} sends ${size} bytes instead of ${wanted}.`, {
      retryable: true,
    });
  }
  const identity = {
    url: shownAddress(source.url),
    etag: strongEtag(headers) ?? validator(source, partial),
    size_bytes: wanted ?? size,
    sha256: source.sha256 ?? hubMetadata.sha256,
  };
  return { answer, identity, revision: hubMetadata.commit ?? source.revision };
}

/** Requests one part of the file that `first` sends. Throws SvcError unless it is of that file. */
export async function openRange(
  source: Source,
  { identity }: Transfer,
  { from, to }: Claim,
  hubClient: HubClient,
  signal: AbortSignal,
): Promise<Answer> {
  const { etag, size_bytes } = identity;
  const answer = await hubClient.get({
    url: source.url,
    hub: source.hub,
    signal,
    headers: { range: `bytes=${from}-${to - 1}`, ...(etag === null ? {} : { 'if-range': etag }) },
  });
  const { status, headers, host, hubMetadata } = answer;
  const range = headers.get('content-range') ?? '';
  const now = strongEtag(headers);
  if (
    status === 206 &&
    range.startsWith(`bytes ${from}-`) &&
    range.endsWith(`/${size_bytes}`) &&
    (now === null || etag === null || now === etag) &&
    (hubMetadata.sha256 ?? identity.sha256) === identity.sha256 &&
    /^(identity)?$/i.test(headers.get('content-encoding') ?? '')
  )
    return answer;
  await answer.body?.cancel().catch(() => undefined);
  if (status >= 400) throw refusal(answer, source.file, source.hub?.host ?? null);
  throw pullError('pull_failed', `${host} does not send the requested part of ${source.file}.`, {
    retryable: true,
  });
}

/** Size of the whole file. Null: unknown. */
function sizeOfAnswer({ status, headers }: Answer, offset: number): number | null {
  if (status === 206) return wholeNumber(/\/(\d+)$/.exec(headers.get('content-range') ?? '')?.[1]);
  const length = wholeNumber(headers.get('content-length'));
  return length === null ? null : length + offset;
}

/** Only a strong ETag guarantees identical bytes. */
function strongEtag(headers: Headers): string | null {
  const etag = headers.get('etag');
  return etag !== null && /^"[\x21\x23-\x7e]{0,512}"$/.test(etag) ? etag : null;
}
