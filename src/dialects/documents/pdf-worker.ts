import { getDocument } from 'unpdf/pdfjs';
import { answerQuestions } from '../../async/foreign-child.ts';
import type { PdfFile, PdfText } from './pdf.ts';

/** Process that reads the text of one PDF file, which may be hostile. It draws and runs nothing. */
answerQuestions((file: PdfFile) =>
  read(file).catch((error: Error): PdfText => ({ problem: problemOf(error) })),
);

async function read({ bytes, pages, characters }: PdfFile): Promise<PdfText> {
  const file = await getDocument({
    // The library takes no Buffer.
    data: new Uint8Array(bytes),
    verbosity: 0,
    isEvalSupported: false,
    disableFontFace: true,
    useSystemFonts: false,
  }).promise;
  if (file.numPages > pages)
    return { problem: `has ${file.numPages} pages; at most ${pages} are read` };
  const texts: string[] = [];
  let length = 0;
  for (let number = 1; number <= file.numPages; number += 1) {
    const page = await file.getPage(number);
    const { items } = await page.getTextContent();
    const text = items
      .map((item) => ('str' in item ? `${item.str}${item.hasEOL ? '\n' : ''}` : ''))
      .join('');
    length += text.length;
    if (length > characters) return { problem: `has more than ${characters} characters of text` };
    texts.push(text.trim());
    page.cleanup();
  }
  // A font may lead to any character.
  return { text: texts.join('\n\n').replaceAll('\0', '').toWellFormed().trim() };
}

function problemOf({ name, message }: Error): string {
  return name === 'PasswordException'
    ? 'is protected by a password'
    : `is no PDF file that can be read (${message.slice(0, 200)})`;
}
