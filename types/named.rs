//! Enums whose variants have names.

/// Declares an enum whose variants have names. Its values are numbered from 0, in the order of declaration.
macro_rules! named {
    ($(#[$doc:meta])* pub enum $type:ident { $($(#[$variant_doc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $type {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $type {
            /// All values, in the order of their numbers.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// Returns the name of the value.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}
