//! Does the script do what the model of a shared line says?
