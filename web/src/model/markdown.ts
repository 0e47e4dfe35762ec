import { Lexer, type Token, type Tokens } from "marked";
import { deepest, mostCharacters } from "./limits";
import type { Sliced } from "./slices";

// Markdown as a tree of our own. Only the splitting into tokens is another's work: no markup is ever made, and what a reader of
// the text would see as characters is never left out, be it a tag, the address of a link or the definition of a reference.

export type Block =
  | { readonly type: "heading"; readonly level: number; readonly children: readonly Inline[] }
  | { readonly type: "paragraph"; readonly children: readonly Inline[] }
  | { readonly type: "code"; readonly language: string; readonly text: string }
  | { readonly type: "quote"; readonly children: readonly Block[] }
  | { readonly type: "list"; readonly start: number | null; readonly items: readonly Item[] }
  | { readonly type: "table"; readonly head: readonly Inline[][]; readonly rows: readonly Inline[][][] }
  | { readonly type: "rule" }
  /** Characters as they were written. */
  | { readonly type: "verbatim"; readonly text: string };

export interface Item {
  /** Of an item to be ticked off, whether it is; null for others. */
  readonly done: boolean | null;
  readonly children: readonly Block[];
}

export type Inline =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "code"; readonly text: string }
  | { readonly type: "strong" | "em" | "del"; readonly children: readonly Inline[] }
  | { readonly type: "link"; readonly children: readonly Inline[]; readonly url: string; readonly title: string }
  | { readonly type: "image"; readonly alt: string; readonly url: string }
  | { readonly type: "break" };

/** A text of more lines or parts stays text. */
const mostLines = 5_000;
const mostNodes = 8_000;
/** The work within one paragraph can grow with the square of its length: a longer one stays as it was written. */
const longestParagraph = 4_000;
/** A table of more cells stays as it was written. */
const mostCells = 2_000;

/** markdown reads a text; null when it is too long or too deep to be shown as anything but text. */
export function* markdown(text: string): Sliced<Block[] | null> {
  if (text.length > mostCharacters || tooDeep(text)) return null;
  const lexer = new Lexer({ gfm: true });
  try {
    // What Lexer.lex does, but with room between its parts.
    lexer.blockTokens(text.replace(/\r\n|\r/g, "\n"), lexer.tokens);
    for (const { src, tokens } of lexer.inlineQueue) {
      if (src.length > longestParagraph) tokens.push({ type: "text", raw: src, text: src, escaped: true } as Tokens.Text);
      else lexer.inlineTokens(src, tokens);
      yield;
    }
    return new Builder().blocks(lexer.tokens, 0);
  } catch (err) {
    if (err instanceof TooMuch || err instanceof RangeError) return null;
    throw err;
  }
}

/** tooDeep looks at what would send the lexer into the depth, before it does. */
function tooDeep(text: string): boolean {
  let count = 0;
  for (const line of text.split("\n")) {
    if (++count > mostLines) return true;
    const lead = /^(?:[ \t]|>|[-*+][ \t]|\d{1,9}[.)][ \t])*/.exec(line)?.[0] ?? "";
    const marks = lead.replace(/\d+[.)]/g, "-").replace(/[ \t]/g, "").length;
    if (marks > deepest || lead.length - marks > 2 * deepest + marks) return true;
  }
  return false;
}

class TooMuch extends Error {}

class Builder {
  private nodes = 0;

  blocks(tokens: readonly Token[], depth: number): Block[] {
    const out: Block[] = [];
    for (const token of tokens) {
      this.count(depth);
      const block = this.block(token, depth);
      if (block) out.push(block);
    }
    return out;
  }

  private count(depth: number): void {
    if (++this.nodes > mostNodes || depth > deepest) throw new TooMuch();
  }

  private block(token: Token, depth: number): Block | null {
    switch (token.type) {
      case "space":
        return null;
      case "heading":
        return { type: "heading", level: (token as Tokens.Heading).depth, children: this.inlines(token, depth) };
      case "paragraph":
      case "text":
        return { type: "paragraph", children: this.inlines(token, depth) };
      case "code":
        return { type: "code", language: (token as Tokens.Code).lang ?? "", text: (token as Tokens.Code).text };
      case "blockquote":
        return { type: "quote", children: this.blocks((token as Tokens.Blockquote).tokens, depth + 1) };
      case "list":
        return this.list(token as Tokens.List, depth);
      case "table":
        return this.table(token as Tokens.Table, depth);
      case "hr":
        return { type: "rule" };
      default:
        return token.raw.trim() === "" ? null : { type: "verbatim", text: token.raw.replace(/\n+$/, "") };
    }
  }

  private list(token: Tokens.List, depth: number): Block {
    const items = token.items.map((item): Item => {
      this.count(depth);
      return { done: item.task ? item.checked === true : null, children: this.blocks(item.tokens.filter((inner) => inner.type !== "checkbox"), depth + 1) };
    });
    return { type: "list", start: token.ordered ? Number(token.start) : null, items };
  }

  private table(token: Tokens.Table, depth: number): Block {
    if (token.header.length * (token.rows.length + 1) > mostCells) return { type: "verbatim", text: token.raw.replace(/\n+$/, "") };
    const cells = (row: readonly Tokens.TableCell[]) => row.map((cell) => this.inlines(cell, depth));
    return { type: "table", head: cells(token.header), rows: token.rows.map(cells) };
  }

  private inlines(token: { tokens?: Token[] | undefined; text?: string }, depth: number): Inline[] {
    if (!token.tokens) return [{ type: "text", text: token.text ?? "" }];
    return token.tokens.filter((inner) => inner.type !== "checkbox").flatMap((inner) => this.inline(inner, depth + 1));
  }

  private inline(token: Token, depth: number): Inline[] {
    this.count(depth);
    switch (token.type) {
      case "text": {
        const { tokens, text, escaped } = token as Tokens.Text;
        if (tokens) return this.inlines(token as Tokens.Text, depth);
        return [{ type: "text", text: escaped ? text : decode(text) }];
      }
      case "escape":
        return [{ type: "text", text: (token as Tokens.Escape).text }];
      case "codespan":
        return [{ type: "code", text: (token as Tokens.Codespan).text }];
      case "strong":
      case "em":
      case "del":
        return [{ type: token.type, children: this.inlines(token as Tokens.Em, depth) }];
      case "br":
        return [{ type: "break" }];
      case "link": {
        const { href, title } = token as Tokens.Link;
        return [{ type: "link", children: this.inlines(token as Tokens.Link, depth), url: href, title: title ?? "" }];
      }
      case "image": {
        const { href, text } = token as Tokens.Image;
        return [{ type: "image", alt: text, url: href }];
      }
      default:
        return [{ type: "text", text: token.raw }];
    }
  }
}

const named: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0" };

/** decode reads the character references of Markdown that everybody writes; others stay as they were written. */
function decode(text: string): string {
  return text.replace(/&(?:(amp|lt|gt|quot|apos|nbsp)|#(\d{1,7})|#x([0-9a-f]{1,6}));/gi, (whole, name: string | undefined, decimal: string | undefined, hex: string | undefined) => {
    if (name !== undefined) return named[name.toLowerCase()] ?? whole;
    const code = decimal !== undefined ? Number(decimal) : Number.parseInt(hex ?? "", 16);
    return code > 0 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? String.fromCodePoint(code) : whole;
  });
}
