import { deflateSync } from 'node:zlib';

/** A PDF file. Each page has one stream of drawing operators. */
export function pdfOf(pages: readonly (string | Buffer)[]): Buffer {
  const page = (index: number) => 4 + 2 * index;
  const objects: Buffer[] = [
    said('<< /Type /Catalog /Pages 2 0 R >>'),
    said(
      `<< /Type /Pages /Count ${pages.length} /Kids [${pages
        .map((_, index) => `${page(index)} 0 R`)
        .join(' ')}] >>`,
    ),
    said('<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>'),
  ];
  for (const [index, drawn] of pages.entries()) {
    const stream = Buffer.isBuffer(drawn) ? drawn : deflateSync(drawn);
    objects.push(
      said(
        '<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] ' +
          `/Contents ${page(index) + 1} 0 R /Resources << /Font << /F1 3 0 R >> >> >>`,
      ),
      Buffer.concat([
        said(`<< /Length ${stream.length} /Filter /FlateDecode >>\nstream\n`),
        stream,
        said('\nendstream'),
      ]),
    );
  }
  const parts = [said('%PDF-1.4\n')];
  const offsets: number[] = [];
  let length = parts[0]?.length ?? 0;
  const add = (bytes: Buffer) => {
    parts.push(bytes);
    length += bytes.length;
  };
  for (const [index, object] of objects.entries()) {
    offsets.push(length);
    add(Buffer.concat([said(`${index + 1} 0 obj\n`), object, said('\nendobj\n')]));
  }
  const size = objects.length + 1;
  const rows = offsets.map((offset) => `${String(offset).padStart(10, '0')} 00000 n \n`);
  add(
    said(
      `xref\n0 ${size}\n0000000000 65535 f \n${rows.join('')}` +
        `trailer << /Size ${size} /Root 1 0 R >>\nstartxref\n${length}\n%%EOF`,
    ),
  );
  return Buffer.concat(parts);
}

/** A line of text on a page. */
export function lineOf(text: string): string {
  return `BT /F1 12 Tf 50 700 Td (${text}) Tj ET`;
}

function said(text: string): Buffer {
  return Buffer.from(text, 'latin1');
}
