import { wrong } from '../../runtime/contract/check.ts';
import { documentFrame, textOfFile } from '../dialect/documents/documents.ts';
import type { Context } from '../http/route.ts';
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
        texts.set(part, await textOf(part, `messages.${index}.content.${place}.file`, context));
  }
  return texts;
}

async function textOf({ file }: FilePart, at: string, context: Context): Promise<string> {
  const param = `${at}.file_data`;
  const [, media_type, data] = /^data:([^,]*);base64,(.*)$/is.exec(file.file_data) ?? [];
  if (media_type === undefined || data === undefined)
    throw wrong(param, `${param} must be a data URL such as data:application/pdf;base64,…`);
  const { begin, end } = documentFrame(file.filename);
  return begin + (await textOfFile({ media_type, data }, param, context)) + end;
}
