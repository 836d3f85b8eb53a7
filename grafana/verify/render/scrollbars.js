// Pictures don't scroll: stands in for react-custom-scrollbars-2, which Vite can't import as Grafana does.
import { createElement } from "react";

export const Scrollbars = ({ children, style }) => createElement("div", { style: { overflow: "hidden", ...style } }, children);
export default Scrollbars;
