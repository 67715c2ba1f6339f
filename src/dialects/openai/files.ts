import { invalidRequest } from '../../contract/check.ts';
import type { Context } from '../../transport/http/route.ts';
import { documentFrame, type Reading, readingOf, textOfFile } from '../documents/documents.ts';
import type { ChatMessage, FilePart } from './chat-messages.ts';

/** Files of a request, as a model reads them: text with the name of the file. */
export type FileTexts = ReadonlyMap<FilePart, string>;

/** Reads all files, one after the other. Throws what `textOfFile` throws. */
export async function readFiles(
  messages: readonly ChatMessage[],
  context: Context,
): Promise<FileTexts> {
  const texts = new Map<FilePart, string>();
  for (const [index, { content }] of messages.entries()) {
    if (typeof content === 'string') continue;
    for (const [place, part] of (content ?? []).entries())
      if (part.type === 'file')
        texts.set(
          part,
          await fileText(
            part.file,
            `messages.${index}.content.${place}.file.file_data`,
            readingOf(context),
          ),
        );
  }
  return texts;
}

/** `param` is the place of its data. Throws what `textOfFile` throws. */
export async function fileText(
  { file_data, filename }: FilePart['file'],
  param: string,
  reading: Reading,
): Promise<string> {
  const [, media_type, data] = /^data:([^,]*);base64,(.*)$/is.exec(file_data) ?? [];
  if (media_type === undefined || data === undefined)
    throw invalidRequest(
      param,
      `${param} must be a data URL such as data:application/pdf;base64,…`,
    );
  const { begin, end } = documentFrame(filename);
  return begin + (await textOfFile({ media_type, data }, param, reading)) + end;
}
