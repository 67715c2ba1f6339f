import type { MessagePart } from '../../contract/messages/parts.ts';
import type { Context } from '../../transport/http/route.ts';
import { documentFrame, readingOf, textOfFile } from '../documents/documents.ts';
import type { DocumentBlock, SentMessage } from './blocks.ts';

/** Documents of a request. Models get their text. */

/** The texts of files, by the source of their document. */
export type FileTexts = ReadonlyMap<DocumentBlock['source'], string>;

/** Reads the files of all documents, one after the other. Throws what `textOfFile` throws. */
export async function readFiles(
  messages: readonly SentMessage[],
  context: Context,
): Promise<FileTexts> {
  const texts = new Map<DocumentBlock['source'], string>();
  for (const [{ source }, at] of documentsIn(messages))
    if (source.type === 'base64')
      texts.set(source, await textOfFile(source, `${at}.source.data`, readingOf(context)));
  return texts;
}

function* documentsIn(messages: readonly SentMessage[]): Generator<[DocumentBlock, string]> {
  for (const [index, { content }] of messages.entries()) {
    if (typeof content === 'string') continue;
    for (const [place, block] of content.entries()) {
      const at = `messages.${index}.content.${place}`;
      if (block.type === 'document') yield [block, at];
      if (block.type === 'tool_result' && Array.isArray(block.content))
        for (const [inner, each] of block.content.entries())
          if (each.type === 'document') yield [each, `${at}.content.${inner}`];
    }
  }
}

/** A document as parts of a message. Its images stay between its texts. */
export function documentParts(
  { source, title, context }: DocumentBlock,
  texts: FileTexts,
): MessagePart[] {
  const textPart = (text: string): MessagePart => ({ type: 'text', text });
  const { begin, end } = documentFrame(title, context);
  const content =
    source.type === 'base64'
      ? (texts.get(source) ?? '')
      : source.type === 'text'
        ? source.data
        : source.content;
  if (typeof content === 'string') return [textPart(begin + content + end)];
  const inner = content.map(
    (block): MessagePart =>
      block.type === 'text'
        ? textPart(block.text)
        : { type: 'image', media_type: block.source.media_type, data: block.source.data },
  );
  return [textPart(begin), ...inner, textPart(end)];
}
