import type {
  MediaPart,
  Message,
  MessagePart,
  RunRequest,
  ToolResultPart,
} from '../../contract/messages/parts.ts';
import { SvcError } from '../../errors.ts';

/** How the API of a provider takes the images and sounds of results of tools. */
export interface FilePlace {
  /**
   * `parts`: in the result. `after`: in a message of the user after the results, since a result is
   * only text. `none`: not at all.
   */
  readonly form: 'parts' | 'after' | 'none';
  takes?(file: MediaPart): boolean;
}

/** For an API without a place. */
export const NO_FILES: FilePlace = { form: 'none' };

/**
 * The messages with the files of results where the API takes them. The text of a result counts its
 * files, and says which of them the model did not get.
 */
export function placeFiles(
  messages: readonly Message[],
  { form, takes = () => true }: FilePlace,
): readonly Message[] {
  if (!messages.some(hasFiles)) return messages;
  return messages.flatMap((message) => {
    if (!hasFiles(message)) return [message];
    const after: MessagePart[] = [];
    const content = message.content.map((part): MessagePart => {
      if (part.type !== 'tool_result' || part.media === undefined) return part;
      const { media, ...result } = part;
      const taken = media.filter((file) => form !== 'none' && takes(file));
      const notes = media.flatMap((file, at) => (taken.includes(file) ? [] : [noteOf(file, at)]));
      const text = [result.text, ...notes].join('\n');
      // Most APIs have no error with parts.
      const isApart = form === 'after' || result.is_error;
      if (isApart) for (const file of taken) after.push(titleOf(part, media.indexOf(file)), file);
      return { ...result, text, ...(isApart || taken.length === 0 ? {} : { media: taken }) };
    });
    const results: Message = { ...message, content };
    return after.length === 0 ? [results] : [results, { role: 'user', content: after }];
  });
}

function hasFiles({ content }: Message): boolean {
  return content.some((part) => part.type === 'tool_result' && part.media !== undefined);
}

function noteOf({ type }: MediaPart, at: number): string {
  const what = type === 'image' ? 'images' : 'audio';
  return `[svc: file ${at + 1} was left out: the model takes no ${what} of tools]`;
}

function titleOf({ id }: ToolResultPart, at: number): MessagePart {
  return { type: 'text', text: `File ${at + 1} of the result of the tool call ${id}:` };
}

/**
 * Which models of one provider take no files of results. No list names these models, so the first
 * refusal decides: the request is sent once more without the files, and the model gets none from
 * then on.
 */
export class FileRefusals {
  private readonly models = new Set<string>();

  /** Sends the request with its files in their place, or without them. */
  async *send<T>(
    request: RunRequest,
    place: FilePlace,
    stream: (request: RunRequest) => AsyncGenerator<T>,
  ): AsyncGenerator<T> {
    const { model } = request;
    const sendWith = (where: FilePlace) =>
      stream({ ...request, messages: placeFiles(request.messages, where) });
    if (!request.messages.some(hasFiles)) return yield* stream(request);
    if (place.form === 'none' || this.models.has(model)) return yield* sendWith(NO_FILES);
    let isBegun = false;
    try {
      for await (const part of sendWith(place)) {
        isBegun = true;
        yield part;
      }
    } catch (thrown) {
      if (isBegun || !refusesFiles(thrown)) throw thrown;
      for await (const part of sendWith(NO_FILES)) {
        // Only now it is known that the files were the cause.
        this.note(model, thrown);
        yield part;
      }
    }
  }

  private note(model: string, { message }: SvcError): void {
    if (TOO_LARGE.test(message) || this.models.size >= MODELS_MAX) return;
    this.models.add(model);
  }
}

const MODELS_MAX = 256;

/** The words are of the provider. Mistral's API refuses a message of the user after results. */
function refusesFiles(thrown: unknown): thrown is SvcError {
  return (
    thrown instanceof SvcError && STATUSES.has(thrown.status ?? 0) && WORDS.test(thrown.message)
  );
}

const STATUSES: ReadonlySet<number> = new Set([400, 404, 413, 415, 422, 500]);
const WORDS = /image|audio|vision|multi-?modal|modalit|media|mmproj|inline.?data|after role/i;
/** One file is too large, which says nothing of the next one. */
const TOO_LARGE = /exceed|too (large|big|many)|maximum|size/i;
