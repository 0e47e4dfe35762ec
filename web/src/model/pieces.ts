/** A piece has at most so many characters and lines: what a browser lays out without a pause. */
const size = 8_000;
const lines = 150;

/** pieces cuts a text, behind a line's end where there is one. Joined they are the text. */
export function pieces(text: string): string[] {
  const out: string[] = [];
  for (let at = 0; at < text.length; ) {
    const end = pieceEnd(text, at);
    out.push(text.slice(at, end));
    at = end;
  }
  return out;
}

function pieceEnd(text: string, from: number): number {
  const limit = from + size;
  let end = -1;
  for (let n = 0, at = text.indexOf("\n", from); n < lines && at >= 0 && at < limit; n++, at = text.indexOf("\n", at + 1)) end = at + 1;
  // Behind the last line's end is the best place, unless the text ends before the limit or no line does.
  if (text.length <= limit && (end < 0 || text.indexOf("\n", end) < 0)) return text.length;
  return end > 0 ? end : wholeCharacters(text, limit);
}

/** wholeCharacters is a place at or before one that does not part the two halves of a character. */
export function wholeCharacters(text: string, at: number): number {
  const code = text.charCodeAt(at - 1);
  return at < text.length && code >= 0xd800 && code <= 0xdbff ? at - 1 : at;
}

/** portionEnd is where a text is cut for what is shown first: never within a character or an escape sequence of a terminal. */
export function portionEnd(text: string, at: number): number {
  if (at >= text.length) return text.length;
  const escape = text.lastIndexOf("\u001b", at - 1);
  return escape > at - 100 && escape > 0 ? escape : wholeCharacters(text, at);
}
