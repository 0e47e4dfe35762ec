/** Deeper levels are no longer moved to the right: nobody could read them there. */
const deepest = 40;

/**
 * Indenter breaks JSON text into lines without parsing it, and takes it in parts: every token keeps its bytes, so that what is
 * shown differs from what was stored only in the space between tokens.
 */
export class Indenter {
  private depth = 0;
  private inString = false;
  /** What the part before ended within a string with: a backslash that stands for no character of its own. */
  private escaped = false;
  /** The last character outside of strings and blanks; a quote stands for a string. */
  private before = "";

  /** feed takes the next part and gives what is to be shown of it. */
  feed(part: string): string {
    const out: string[] = [];
    let at = 0;
    while (at < part.length) at = this.inString ? this.string(part, at, out) : this.token(part, at, out);
    return out.join("");
  }

  private string(part: string, from: number, out: string[]): number {
    const special = /["\\]/g;
    let at = from;
    if (this.escaped) {
      this.escaped = false;
      at++;
    }
    for (;;) {
      special.lastIndex = at;
      const found = special.exec(part);
      if (!found) {
        out.push(part.slice(from));
        return part.length;
      }
      if (found[0] === '"') {
        this.inString = false;
        out.push(part.slice(from, found.index + 1));
        return found.index + 1;
      }
      at = found.index + 2;
      if (at > part.length) {
        this.escaped = true;
        out.push(part.slice(from));
        return part.length;
      }
    }
  }

  private token(part: string, from: number, out: string[]): number {
    const word = part[from] ?? "";
    if (word === " " || word === "\n" || word === "\r" || word === "\t") return from + 1;
    const closes = word === "}" || word === "]";
    if (closes) this.depth--;
    // Nothing stands between the brackets of an empty value.
    if (closes ? !opens(this.before) : opens(this.before) || this.before === ",") out.push(newline(this.depth));
    if (opens(word)) this.depth++;
    this.before = word;
    if (word === '"') {
      this.inString = true;
      out.push(word);
      return from + 1;
    }
    if (word === ":") {
      out.push(": ");
      return from + 1;
    }
    if (closes || opens(word) || word === ",") {
      out.push(word);
      return from + 1;
    }
    const end = /[\s"{}[\],:]/g;
    end.lastIndex = from + 1;
    const found = end.exec(part)?.index ?? part.length;
    out.push(part.slice(from, found));
    return found;
  }
}

function opens(word: string): boolean {
  return word === "{" || word === "[";
}

function newline(depth: number): string {
  return "\n" + "  ".repeat(Math.min(Math.max(depth, 0), deepest));
}
