import { describe, expect, it } from "vitest";
import { deepest, mostCharacters } from "../src/model/limits";
import { markdown, type Block, type Inline } from "../src/model/markdown";
import { atOnce } from "../src/model/slices";

const read = (text: string) => atOnce(markdown(text));

/** told writes a tree in short: what is no text stands in brackets with its name. */
function told(blocks: readonly Block[] | null): string {
  if (blocks === null) return "text";
  return blocks
    .map((block) => {
      switch (block.type) {
        case "heading":
          return `h${block.level}[${words(block.children)}]`;
        case "paragraph":
          return `p[${words(block.children)}]`;
        case "code":
          return `code:${block.language}[${block.text}]`;
        case "quote":
          return `quote[${told(block.children)}]`;
        case "list":
          return `list${block.start ?? ""}[${block.items.map((item) => (item.done === null ? "" : item.done ? "x " : "o ") + told(item.children)).join(", ")}]`;
        case "table":
          return `table[${[block.head, ...block.rows].map((row) => row.map(words).join("|")).join(" / ")}]`;
        case "rule":
          return "rule";
        case "verbatim":
          return `verbatim[${block.text}]`;
      }
    })
    .join(" ");
}

function words(inlines: readonly Inline[]): string {
  return inlines
    .map((inline) => {
      switch (inline.type) {
        case "text":
          return inline.text;
        case "break":
          return "⏎";
        case "code":
          return `\`${inline.text}\``;
        case "link":
          return `link[${words(inline.children)} → ${inline.url}${inline.title && ` "${inline.title}"`}]`;
        case "image":
          return `image[${inline.alt} → ${inline.url}]`;
        default:
          return `${inline.type}[${words(inline.children)}]`;
      }
    })
    .join("");
}

describe("Markdown", () => {
  it.each<[string, string, string]>([
    ["headings and paragraphs", "# One\n\ntwo *three* **four** ~~five~~", "h1[One] p[two em[three] strong[four] del[five]]"],
    ["code", "```go\na < b\n```\n\nand `x&y`", "code:go[a < b] p[and `x&y`]"],
    ["lists", "- a\n- b\n  1. c\n\n3. d", "list[p[a], p[b] list1[p[c]]] list3[p[d]]"],
    ["tasks", "- [ ] todo\n- [x] done", "list[o p[todo], x p[done]]"],
    ["tables", "|a|b|\n|-|-|\n|1|*2*|", "table[a|b / 1|em[2]]"],
    ["quotes and rules", "> said\n\n---", "quote[p[said]] rule"],
    ["links, with their address and title", '[a](https://x.y "why") https://z.w', 'p[link[a → https://x.y "why"] link[https://z.w → https://z.w]]'],
    ["references", "[a][b]\n\n[b]: https://x.y", "p[link[a → https://x.y]] verbatim[[b]: https://x.y]"],
    ["images", "![alt](https://x.y/z.png)", "p[image[alt → https://x.y/z.png]]"],
    ["character references", "a &amp; b &lt;c&gt; &#65;&#x42; &unknown;", "p[a & b <c> AB &unknown;]"],
    ["escapes", "\\*no\\*", "p[*no*]"],
    ["line breaks", "a  \nb\nc", "p[a⏎b\nc]"],
  ])("has %s", (_name, text, want) => {
    expect(told(read(text))).toBe(want);
  });

  it.each<[string, string, string]>([
    ["a script", "<script>alert(1)</script>", "verbatim[<script>alert(1)</script>]"],
    ["a tag in a text", "a <img src=x onerror=alert(1)> b", "p[a <img src=x onerror=alert(1)> b]"],
    ["a comment", "<!-- hidden -->", "verbatim[<!-- hidden -->]"],
    ["a script as an address", "[a](javascript:alert(1))", "p[link[a → javascript:alert(1)]]"],
    ["data as an image", "![a](data:text/html,<script>)", "p[image[a → data:text/html,<script>]]"],
    ["a frame in a table", "|<iframe src=x>|\n|-|\n|</td><script>|", "table[<iframe src=x> / </td><script>]"],
    ["an address that closes a quote", '[a](<" onclick="x>)', 'p[link[a → " onclick="x]]'],
  ])("shows %s as characters", (_name, text, want) => {
    expect(told(read(text))).toBe(want);
  });

  it.each<[string, string]>([
    ["too long", "a ".repeat(mostCharacters / 2 + 1)],
    ["too many lines", "- a\n".repeat(20_000)],
    ["quoted too deep", `${"> ".repeat(deepest + 1)}x`],
    ["listed too deep", `${"- ".repeat(deepest + 1)}x`],
    ["numbered too deep", `${"1. ".repeat(deepest + 1)}x`],
    ["indented too deep", Array.from({ length: 300 }, (_, n) => `${" ".repeat(2 * n)}- x`).join("\n")],
    ["nothing but quotes", ">".repeat(mostCharacters)],
    ["too many parts", "*a* `b` ".repeat(400).concat("\n\n").repeat(20)],
  ])("stays text when it is %s", (_name, text) => {
    expect(read(text)).toBeNull();
  });

  it("leaves a huge table as it was written", () => {
    const table = `|a|b|\n|-|-|\n${"|1|2|\n".repeat(1500)}`;
    expect(told(read(`before\n\n${table}\nafter`))).toBe(`p[before] verbatim[${table.trimEnd()}] p[after]`);
    const wide = `${"|a".repeat(3000)}|\n${"|-".repeat(3000)}|\n`;
    expect(read(wide)?.map((block) => block.type)).toEqual(["verbatim"]);
  });

  it("leaves a huge paragraph as it was written", () => {
    for (const text of ["[", "*a ", "_a_ ", "**a", "<", "![", "~~a", "a@b.c "].map((part) => part.repeat(Math.floor(20_000 / part.length)))) {
      expect(told(read(text))).toMatch(/^(p|verbatim)\[/);
      expect(told(read(text))).toContain(text.trimEnd());
    }
  });

  it("gives way often, whatever it is given", () => {
    const parts = ["[", "**a", "_a_ ", "__a", "~~a", "<", "*_`[<!~", "[a](b) ", "- a\n", "a\n=\n", "|1|2|\n", "a *b ", "> a\n", "![["];
    for (const part of parts) {
      const text = part.includes("\n") ? part.repeat(2_400) : `${part.repeat(Math.floor(3_999 / part.length))}\n\n`.repeat(30);
      const work = markdown(text);
      let steps = 0;
      let longest = 0;
      for (let begun = performance.now(); !work.next().done; begun = performance.now()) {
        steps++;
        longest = Math.max(longest, performance.now() - begun);
      }
      expect(steps, part).toBeGreaterThan(0);
      // A step takes some tens of milliseconds; without a limit these would take many seconds.
      expect(longest, part).toBeLessThan(2_000);
    }
  });
});
